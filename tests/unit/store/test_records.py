"""Tests when a copy is announced to its record before it is published."""

from __future__ import annotations

import pytest

from bridge.model.message import Copy, Envelope
from bridge.store.keys import Keys
from bridge.store.messages.records import Records

HOUR_MS = 3_600_000
NOW_MS = 1_000_000
COPY = Copy(
    topic="orders",
    id="o-1",
    epoch=2,
    nonce=3,
    attempt=1,
    max_retry=1,
    due_ms=0,
    expires_ms=0,
    created_ms=0,
    envelope=Envelope(),
)


@pytest.mark.parametrize(
    ("retention_ms", "tombstone_ms", "left_ms", "announced"),
    [
        (HOUR_MS, 24 * HOUR_MS, 0, False),
        (HOUR_MS, 24 * HOUR_MS, HOUR_MS - 60_000, False),
        (HOUR_MS, 24 * HOUR_MS, HOUR_MS - 59_999, True),
        (HOUR_MS, 24 * HOUR_MS, 2 * HOUR_MS, True),
        (24 * HOUR_MS, HOUR_MS, 2 * HOUR_MS, True),
        (1_000, 1_000, 0, True),
    ],
)
def test_a_copy_is_announced_if_a_record_that_ends_now_may_be_forgotten_before_it_comes(
    retention_ms: int, tombstone_ms: int, left_ms: int, announced: bool
) -> None:
    records = Records(keys=Keys("delay"), retention_ms=retention_ms, tombstone_ms=tombstone_ms)
    call = records.announce(COPY, arrives_ms=NOW_MS + left_ms, now_ms=NOW_MS)

    assert (call is not None) == announced
    assert call is None or (call.script.name, call.args[-1]) == ("announce", NOW_MS + left_ms)
