"""Tests that a rate admits exactly its number of requests an interval, by the clock of Redis."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from bridge.store.client import Store
from bridge.store.kept.rates import Rate, Rates
from bridge.store.keys import Keys
from bridge.store.replies import whole

NOW_US = 1_796_115_600_000_000
# Buckets expire by the real clock, and the tests pass their own. No bucket expires in so long an interval.
INTERVAL_MS = 1_000_000
INTERVAL_US = INTERVAL_MS * 1_000


class Clock:
    """One bucket, asked at moments that the test chooses."""

    def __init__(self, store: Store, count: int, *, burst: int | None = None) -> None:
        self._store = store
        self._rates = Rates(store, Keys("delay"))
        self._rate = Rate(count, INTERVAL_MS, burst)
        self.key = uuid4().hex

    async def admitted(self, at_us: int, requests: int = 1) -> int:
        return [await self.wait_ms(at_us) for _ in range(requests)].count(0)

    async def wait_ms(self, at_us: int) -> int:
        (wait_ms,) = await self._store.run([self._rates.call(self.key, "send", self._rate, now_us=NOW_US + at_us)])
        return int(wait_ms)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50, 997])
async def test_burst_admits_exactly_the_count_of_an_interval(store: Store, count: int) -> None:
    bucket = Clock(store, count)
    assert await bucket.admitted(0, count + 3) == count


async def test_requests_after_the_burst_are_admitted_evenly(store: Store) -> None:
    bucket = Clock(store, 3)
    assert await bucket.admitted(0, 5) == 3
    assert await bucket.wait_ms(0) == 333_334
    assert await bucket.admitted(333_333_333) == 0
    assert await bucket.admitted(333_333_334, 2) == 1
    assert await bucket.admitted(666_666_666) == 0
    assert await bucket.admitted(666_666_667, 2) == 1


async def test_long_run_admits_exactly_the_allowed_count(store: Store) -> None:
    bucket = Clock(store, 7)
    admitted = 0
    for at_us in range(0, 10 * INTERVAL_US, 11_111_111):
        admitted += await bucket.admitted(at_us)
    assert admitted == 7 + at_us * 7 // INTERVAL_US


async def test_reported_wait_is_long_enough(store: Store) -> None:
    bucket = Clock(store, 7)
    await bucket.admitted(0, 7)
    wait_ms = await bucket.wait_ms(123)
    assert await bucket.admitted(123 + wait_ms * 1_000) == 1


async def test_refused_requests_do_not_count(store: Store) -> None:
    bucket = Clock(store, 1)
    assert await bucket.admitted(0, 50) == 1
    assert await bucket.admitted(INTERVAL_US) == 1


async def test_burst_may_be_smaller_than_the_count_of_an_interval(store: Store) -> None:
    bucket = Clock(store, 10, burst=2)
    assert await bucket.admitted(0, 5) == 2
    assert await bucket.admitted(INTERVAL_US, 5) == 2


async def test_clock_that_goes_back_locks_nobody_out(store: Store) -> None:
    bucket = Clock(store, 2)
    assert await bucket.admitted(3_600 * INTERVAL_US) == 1
    assert await bucket.admitted(0, 3) == 1
    assert await bucket.admitted(INTERVAL_US // 2) == 1


async def test_directions_and_tokens_do_not_share_a_limit(store: Store) -> None:
    rates, token_id = Rates(store, Keys("delay")), uuid4().hex
    rate = Rate(1, interval_ms=60_000)
    assert await rates.admit(token_id, "send", rate) == 0
    assert await rates.admit(token_id, "send", rate) > 0
    assert await rates.admit(token_id, "consume", rate) == 0
    assert await rates.admit(uuid4().hex, "send", rate) == 0


async def test_concurrent_requests_get_no_more_than_the_limit(store: Store) -> None:
    rates, token_id = Rates(store, Keys("delay")), uuid4().hex
    rate = Rate(20, interval_ms=600_000)
    waits_ms = await asyncio.gather(*(rates.admit(token_id, "send", rate) for _ in range(100)))
    assert waits_ms.count(0) == 20


async def test_idle_bucket_expires(store: Store) -> None:
    rates, keys, token_id = Rates(store, Keys("delay")), Keys("delay"), uuid4().hex
    await rates.admit(token_id, "send", Rate(1, interval_ms=5_000))
    assert 0 < whole(await store.command("PTTL", keys.rate(token_id, "send"))) <= 5_000
