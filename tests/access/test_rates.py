"""So many requests an interval, exactly, by Redis' clock."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.rates import Rate, Rates

NOW_US = 1_796_115_600_000_000
# So long that a bucket does not expire, which is by the real clock, while a test goes by its own.
INTERVAL_MS = 1_000_000
INTERVAL_US = INTERVAL_MS * 1_000


class Clock:
    """One bucket, asked at moments of the test's."""

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
async def test_a_burst_is_as_many_as_in_an_interval_and_not_one_more(store: Store, count: int) -> None:
    bucket = Clock(store, count)
    assert await bucket.admitted(0, count + 3) == count


async def test_then_they_are_admitted_evenly(store: Store) -> None:
    bucket = Clock(store, 3)
    assert await bucket.admitted(0, 5) == 3
    assert await bucket.wait_ms(0) == 333_334
    assert await bucket.admitted(333_333_333) == 0
    assert await bucket.admitted(333_333_334, 2) == 1
    assert await bucket.admitted(666_666_666) == 0
    assert await bucket.admitted(666_666_667, 2) == 1


async def test_over_a_long_time_there_are_exactly_as_many_as_allowed(store: Store) -> None:
    bucket = Clock(store, 7)
    admitted = 0
    for at_us in range(0, 10 * INTERVAL_US, 11_111_111):
        admitted += await bucket.admitted(at_us)
    assert admitted == 7 + at_us * 7 // INTERVAL_US


async def test_the_wait_that_is_told_is_enough(store: Store) -> None:
    bucket = Clock(store, 7)
    await bucket.admitted(0, 7)
    wait_ms = await bucket.wait_ms(123)
    assert await bucket.admitted(123 + wait_ms * 1_000) == 1


async def test_what_is_not_admitted_counts_for_nothing(store: Store) -> None:
    bucket = Clock(store, 1)
    assert await bucket.admitted(0, 50) == 1
    assert await bucket.admitted(INTERVAL_US) == 1


async def test_a_burst_may_be_less_than_an_interval_has(store: Store) -> None:
    bucket = Clock(store, 10, burst=2)
    assert await bucket.admitted(0, 5) == 2
    assert await bucket.admitted(INTERVAL_US, 5) == 2


async def test_a_clock_that_went_back_locks_nobody_out(store: Store) -> None:
    bucket = Clock(store, 2)
    assert await bucket.admitted(3_600 * INTERVAL_US) == 1
    assert await bucket.admitted(0, 3) == 1
    assert await bucket.admitted(INTERVAL_US // 2) == 1


async def test_directions_and_tokens_do_not_share_a_limit(store: Store) -> None:
    rates, whose = Rates(store, Keys("delay")), uuid4().hex
    rate = Rate(1, interval_ms=60_000)
    assert await rates.admit(whose, "send", rate) == 0
    assert await rates.admit(whose, "send", rate) > 0
    assert await rates.admit(whose, "consume", rate) == 0
    assert await rates.admit(uuid4().hex, "send", rate) == 0


async def test_together_they_get_no_more_than_one_alone_would(store: Store) -> None:
    rates, whose = Rates(store, Keys("delay")), uuid4().hex
    rate = Rate(20, interval_ms=600_000)
    waits_ms = await asyncio.gather(*(rates.admit(whose, "send", rate) for _ in range(100)))
    assert waits_ms.count(0) == 20


async def test_an_idle_bucket_is_forgotten(store: Store) -> None:
    rates, keys, whose = Rates(store, Keys("delay")), Keys("delay"), uuid4().hex
    await rates.admit(whose, "send", Rate(1, interval_ms=5_000))
    assert 0 < await store.command("PTTL", keys.rate(whose, "send")) <= 5_000
