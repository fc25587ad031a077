"""Defines a message's timeline: its last transitions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MOST: Final = 16
"""The most transitions that a timeline has."""


class What(StrEnum):
    """The kind of a transition in the life of a message."""

    # In the order of their codes in `store/lua/_record.lua`.

    SENT = "sent"
    REPLACED = "replaced"  # another message took its id; a timeline begins with it
    MOVED = "moved"
    RELEASED = "released"  # it was due, and went to its ready queue
    LEASED = "leased"
    EXTENDED = "extended"
    RETURNED = "returned"  # its lease ended, and it went back to its ready queue
    NACKED = "nacked"
    RETRIED = "retried"  # its delivery over AMQP failed
    BURIED = "buried"  # it became a dead letter
    REPLAYED = "replayed"
    ACKED = "acked"
    EXPIRED = "expired"  # its time to live passed
    DELETED = "deleted"
    DROPPED = "dropped"  # its dead letter was deleted
    RESTORED = "restored"  # from a backup, which has no timelines
    CHANGED = "changed"  # its content, limits or labels; also its due moment, if that was asked for too


BEGINNINGS: Final = frozenset((What.SENT, What.REPLACED))


@dataclass(frozen=True, kw_only=True, slots=True)
class Transition:
    """One transition, at a moment of Redis' clock in Unix ms.

    `attempt`: how many deliveries were made by then, as the record counts them. `slot`: the queue of the wheel into
    which the transition put the message; None: into none. A message in a bundle may lie in a neighbouring slot.
    `late_ms`: how many ms a release came after the due moment, or a return came after the lease's end; None for other
    transitions. `token_id`: the caller's token; None if the bridge required no token, or acted by itself. `reason`: the
    first hundred bytes of the reason; None: there is none.
    """

    at_ms: int
    what: What
    attempt: int
    slot: str | None
    late_ms: int | None
    token_id: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """The transitions of a message, the oldest first."""

    topic: str
    id: str
    items: list[Transition]

    @property
    def complete(self) -> bool:
        """Whether no earlier transition is missing: the timeline begins with the message's send (`SENT`, or `REPLACED`
        if the send replaced another message)."""
        return bool(self.items) and self.items[0].what in BEGINNINGS
