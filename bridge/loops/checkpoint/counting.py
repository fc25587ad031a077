"""Counts the results of copies at the checkpoint in the metrics."""

from __future__ import annotations

from typing import assert_never

from bridge.broker.copies.classify import Due, Returned
from bridge.loops.checkpoint.cases import Case, Item
from bridge.loops.checkpoint.verdicts import Asked, CopyResult
from bridge.metrics.messages import DEAD, EXPIRED, GHOSTS, LEASES_EXPIRED, RETRIED, released
from bridge.model.clock_step import STEP_MS
from bridge.model.message import CopyKind
from bridge.store.clock import StoreClock


def count(case: Case, counts: CopyResult | None, clock: StoreClock) -> None:
    """Counts the result of a copy in the metrics. `counts`: the result; None: counts nothing.

    The lateness of a release is measured at its confirm, because the batch may end later. A confirm of a new queue
    counts only 1.5 s after the declare, but its consumers have the message before.
    """
    item, outcome = case.item, case.outcome
    topic = item.copy.topic
    if counts in {CopyResult.RELEASED, CopyResult.DEAD} and _lease_ended(item, outcome):
        LEASES_EXPIRED.add(topic)
    match counts:
        case CopyResult.RELEASED:
            clock.overruled += item.copy.due_ms - outcome.now_ms > STEP_MS
            now_ms = clock.now_ms() if case.arrived_ms is None else case.arrived_ms
            released(topic, now_ms - max(item.copy.due_ms, outcome.found.due_ms))
        case CopyResult.GHOST:
            GHOSTS.add(topic)
        case CopyResult.EXPIRED:
            EXPIRED.add(topic)
        case CopyResult.DEAD:
            DEAD.add(topic, _cause(item))
        case CopyResult.RETRIED:
            RETRIED.add(topic)
        case None:
            pass
        case _:
            assert_never(counts)


def _lease_ended(item: Item, outcome: Asked) -> bool:
    """Whether the copy comes because no consumer has settled its lease.

    A lease copy has lost its kind if it could not be published, or if the checkpoint asked about it again. Its due
    moment then tells: it is the lease's end, later than the message's due moment.
    """
    kind = item.kind if isinstance(item, Due) else None
    if kind in (CopyKind.HOLD, CopyKind.CHECKED):
        return outcome.found.attempts > 0 and item.copy.due_ms > outcome.found.due_ms
    return kind is CopyKind.LEASE


def _cause(item: Item) -> str:
    if isinstance(item, Returned):
        return item.reason
    return "lease_ended" if item.copy.envelope.target is None else "unroutable"
