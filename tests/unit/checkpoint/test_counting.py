"""Tests how the checkpoint counts the results of copies in the metrics."""

import pytest

from bridge.broker.copies.classify import Due, Returned
from bridge.loops.checkpoint.cases import Case, Item
from bridge.loops.checkpoint.counting import count
from bridge.loops.checkpoint.verdicts import CopyResult, Drop
from bridge.metrics.registry import REGISTRY
from bridge.model.message import Copy, CopyKind, Envelope, Target
from bridge.store.clock import StoreClock
from bridge.store.messages.outcomes import Outcome
from bridge.store.messages.verdicts import FireVerdict
from tests.records import record

NOW_MS = 1_769_850_000_000


def copy(topic: str, target: Target | None = None) -> Copy:
    return Copy(
        topic=topic,
        id="o-1",
        epoch=3,
        nonce=7,
        attempt=2,
        max_retry=5,
        due_ms=NOW_MS,
        expires_ms=0,
        created_ms=NOW_MS - 9_000,
        envelope=Envelope(body=b"{}", target=target),
        asked=0,
    )


def came_due(of: Copy) -> Due:
    return Due(tag=1, original=of, copy=of, stranded_ms=0, kind=CopyKind.LEASE)


REJECTED = copy("counted-returned")
UNTAKEN = copy("counted-target", Target(exchange="shop", routing_key="orders.paid"))
UNSETTLED = copy("counted-lease")


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (Returned(tag=1, original=REJECTED, copy=REJECTED, reason="rejected"), "rejected"),
        (came_due(UNTAKEN), "unroutable"),
        (came_due(UNSETTLED), "lease_ended"),
    ],
)
def test_a_dead_letter_counts_under_its_last_failure(item: Item, reason: str) -> None:
    outcome = Outcome(FireVerdict.BURY, NOW_MS, 0, record(topic=item.topic, due_ms=NOW_MS))

    count(Case(item, outcome, Drop(CopyResult.DEAD)), CopyResult.DEAD, StoreClock())

    labels = {"topic": item.topic, "reason": reason}
    assert REGISTRY.get_sample_value("delaybridge_dead_total", labels) == 1
