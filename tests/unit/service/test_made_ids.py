from __future__ import annotations

import pytest

from bridge.model.values import Draft
from bridge.service.sending.made_ids import unclaimed
from tests.records import claim, draft

LEAST_MS = 3_000
NOW_MS = 1_000_000.5
CREATED_MS = 1_000_001


@pytest.mark.parametrize(
    ("asked", "ttl_ms", "due_ms", "expires_ms"),
    [
        (draft(delay_ms=5_000), -1, CREATED_MS + 5_000, 0),
        (draft(delay_ms=3_000), -1, CREATED_MS + 3_000, 0),
        (draft(delay_ms=5_000), 0, CREATED_MS + 5_000, CREATED_MS + 5_000),
        (draft(delay_ms=5_000), 60_000, CREATED_MS + 5_000, CREATED_MS + 65_000),
        (draft(deliver_at_ms=2_000_000), -1, 2_000_000, 0),
        (draft(deliver_at_ms=CREATED_MS + 3_000), -1, CREATED_MS + 3_000, 0),
    ],
)
def test_record_of_a_made_id_counts_from_the_latest_moment_it_may_be(
    asked: Draft, ttl_ms: int, due_ms: int, expires_ms: int
) -> None:
    record = unclaimed(asked, claim(ttl_ms=ttl_ms), NOW_MS, least_ms=LEAST_MS)
    assert record is not None
    assert (record.created_ms, record.due_ms, record.expires_ms) == (CREATED_MS, due_ms, expires_ms)
    assert (record.epoch, record.nonce, record.max_retry) == (1, 9, 3)


@pytest.mark.parametrize(
    "asked",
    [
        draft(id="o-1", delay_ms=5_000),
        draft(),
        draft(delay_ms=2_999),
        draft(deliver_at_ms=1),
        draft(deliver_at_ms=CREATED_MS + 2_999),
    ],
)
def test_id_of_a_caller_and_a_short_delay_are_claimed(asked: Draft) -> None:
    assert unclaimed(asked, claim(), NOW_MS, least_ms=LEAST_MS) is None


def test_every_id_is_claimed_while_the_clock_is_unknown() -> None:
    assert unclaimed(draft(delay_ms=5_000), claim(), None, least_ms=LEAST_MS) is None
