"""Keeps the unacknowledged delivery tags of a channel, and finds tags that one multiple-ack can settle. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Acks:
    """The acks to send. `up_to`: one multiple-ack settles this tag and all before it; 0: no multiple-ack. `single`:
    each of these tags gets a separate ack."""

    up_to: int
    single: tuple[int, ...]


class AckWindow:
    """The unacknowledged delivery tags of one channel, in the order of delivery."""

    def __init__(self) -> None:
        self._outstanding: dict[int, None] = {}
        self._last = 0
        self.held = 0  # outstanding tags that `delivered` was called with

    def delivered(self, tag: int) -> None:
        self.held += 1
        # A tag that nobody noted stays outstanding: a multiple-ack would acknowledge a message that nobody has seen.
        for skipped_or_new in range(self._last + 1, tag + 1):
            self._outstanding[skipped_or_new] = None
        self._last = tag

    def done(self, tags: Iterable[int]) -> Acks:
        """Removes tags whose messages are finished. Returns the acks to send; each tag is in one ack."""
        finished = self._outstanding.keys() & set(tags)
        up_to = 0
        for tag in self._outstanding:
            if tag not in finished:
                break
            up_to = tag
        single = tuple(sorted(tag for tag in finished if tag > up_to))
        for tag in finished:
            del self._outstanding[tag]
        self.held -= len(finished)
        return Acks(up_to, single)
