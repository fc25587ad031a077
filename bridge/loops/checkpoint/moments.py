"""Decides when the checkpoint asks Redis about an arrival. Pure."""

from __future__ import annotations

from bridge.broker.copies.classify import Arrival, Bundle, Due
from bridge.loops.checkpoint.verdicts import HELD_AT_MOST_MS
from bridge.model.message import CopyKind
from bridge.store.messages.records import AHEAD_MS


def ahead_ms(kind: CopyKind) -> int:
    """How much ahead of its due moment a copy of the kind is asked about. A leased message belongs to its consumer to
    the end."""
    return 0 if kind is CopyKind.LEASE else AHEAD_MS


def ask_at_ms(arrival: Arrival, now_ms: float) -> float:
    """Returns when to open the bundle or ask about the copy, in Unix ms.

    That is a moment before it is due, if it is due soon. The wheel aims only a little short, so a copy that is due much
    later was moved to this queue by somebody else. The checkpoint asks about it at once, as about all other arrivals.
    """
    if isinstance(arrival, Bundle):
        due_ms = arrival.due_ms - ahead_ms(arrival.kind)
    elif isinstance(arrival, Due):
        due_ms = arrival.copy.due_ms - ahead_ms(arrival.kind)
    else:
        return now_ms
    return due_ms if due_ms - now_ms <= HELD_AT_MOST_MS else now_ms
