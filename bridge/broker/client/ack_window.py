"""Which deliveries are outstanding, and how what is done is acknowledged: by multiple, where that is right. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Acks:
    """`up_to`: one acknowledgement for this and all before it (0: none); `single`: one each."""

    up_to: int
    single: tuple[int, ...]


class AckWindow:
    """The delivery tags of one channel that are not acknowledged yet, in the order of delivery."""

    def __init__(self) -> None:
        self._outstanding: dict[int, None] = {}
        self._last = 0
        self.held = 0  # of them, those that were noted

    def delivered(self, tag: int) -> None:
        self.held += 1
        # What nobody has noted before it stays outstanding: one acknowledgement for many would lose it.
        for one in range(self._last + 1, tag + 1):
            self._outstanding[one] = None
        self._last = tag

    def done(self, tags: Iterable[int]) -> Acks:
        """Takes note of tags that are done with; what to tell the broker. It hears of none twice."""
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
