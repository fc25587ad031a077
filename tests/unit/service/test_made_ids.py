from __future__ import annotations

import pytest

from bridge.service.sending.made_ids import unclaimed
from bridge.store.messages.records import Claim

LEAST_MS = 3_000
NOW_MS = 1_000_000.5
CREATED_MS = 1_000_001


def claim(*, mode: str = "in", when_ms: int = 5_000, ttl_ms: int = -1, fresh: int = 1) -> Claim:
    return Claim("o-1", mode=mode, when_ms=when_ms, ttl_ms=ttl_ms, max_retry=3, nonce=9, fresh=fresh, labels="", by="-")


@pytest.mark.parametrize(
    ("asked", "due_ms", "expires_ms"),
    [
        (claim(), CREATED_MS + 5_000, 0),
        (claim(when_ms=3_000), CREATED_MS + 3_000, 0),
        (claim(ttl_ms=0), CREATED_MS + 5_000, CREATED_MS + 5_000),
        (claim(ttl_ms=60_000), CREATED_MS + 5_000, CREATED_MS + 65_000),
        (claim(mode="at", when_ms=2_000_000), 2_000_000, 0),
        (claim(mode="at", when_ms=CREATED_MS + 3_000), CREATED_MS + 3_000, 0),
    ],
)
def test_record_of_a_made_id_counts_from_the_latest_moment_it_may_be(
    asked: Claim, due_ms: int, expires_ms: int
) -> None:
    record = unclaimed("orders", asked, NOW_MS, least_ms=LEAST_MS)
    assert record is not None
    assert (record.created_ms, record.due_ms, record.expires_ms) == (CREATED_MS, due_ms, expires_ms)
    assert (record.epoch, record.nonce, record.max_retry) == (1, 9, 3)


@pytest.mark.parametrize(
    "asked",
    [
        claim(fresh=0),
        claim(when_ms=0),
        claim(when_ms=2_999),
        claim(mode="at", when_ms=1),
        claim(mode="at", when_ms=CREATED_MS + 2_999),
    ],
)
def test_id_of_a_caller_and_a_short_delay_are_claimed(asked: Claim) -> None:
    assert unclaimed("orders", asked, NOW_MS, least_ms=LEAST_MS) is None


def test_every_id_is_claimed_while_the_clock_is_unknown() -> None:
    assert unclaimed("orders", claim(), None, least_ms=LEAST_MS) is None
