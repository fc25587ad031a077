"""Decides when the checkpoint asks Redis about an arrival. Pure."""

from __future__ import annotations

from bridge.broker.copies.classify import Arrival, Bundle, Due
from bridge.broker.publications import short_ms
from bridge.loops.checkpoint.verdicts import HELD_AT_MOST_MS
from bridge.model.clock_step import STEP_MS
from bridge.model.message import CopyKind
from bridge.store.messages.records import AHEAD_MS


def early_ms(kind: CopyKind) -> int:
    """Returns how many ms before a copy's due moment the checkpoint asks Redis about the copy: `AHEAD_MS`. 0 for lease
    copies: a lease is never cut short."""
    return 0 if kind is CopyKind.LEASE else AHEAD_MS


def ask_at_ms(arrival: Arrival, now_ms: float) -> float:
    """Returns when to open a bundle, or to ask Redis about a copy, in Unix ms. `now_ms`: now, in Unix ms of Redis'
    clock.

    An arrival that is overdue, or due within `HELD_AT_MOST_MS`, gets the moment `early_ms` before its due moment. Any
    other arrival gets `now_ms`. The wheel brings copies only a little early, so something else has moved a copy that is
    due much later to this queue.
    """
    if isinstance(arrival, Bundle):
        due_ms = arrival.due_ms - early_ms(arrival.kind)
    elif isinstance(arrival, Due):
        due_ms = arrival.copy.due_ms - early_ms(arrival.kind)
    else:
        return now_ms
    return due_ms if due_ms - now_ms <= HELD_AT_MOST_MS else now_ms


def first_asked_ms(arrival: Arrival, now_ms: float, ahead_ms: float) -> float:
    """Returns when to open a bundle, or to ask Redis about a copy, that has just left the wheel; Unix ms. `now_ms`:
    now, in Unix ms of Redis' clock. `ahead_ms`: an upper bound, in ms: how far Redis' clock has jumped ahead since it
    gave the due moments.

    If Redis' clock may have jumped ahead, a copy that seems late may in fact be early. Then returns `now_ms` plus
    `short_ms()`: a copy leaves the wheel at most this early.
    """
    late = isinstance(arrival, Due) and arrival.waited_ms is not None and now_ms - arrival.copy.due_ms > STEP_MS
    return now_ms + short_ms() if late and ahead_ms > STEP_MS else ask_at_ms(arrival, now_ms)
