"""Tests that a call carries the moment after which it changes nothing, against a Redis whose clock the test sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

import pytest

from bridge.model.errors import StoreUnavailable
from bridge.store.calls import Call
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.messages.records import Records
from bridge.store.servers.servers import PackedCommand

TIMEOUT_MS = 1_500
RECORDS = Records(keys=Keys("delay"), retention_ms=1, tombstone_ms=2)
TIMELESS = Records(keys=Keys("delay"), retention_ms=1, tombstone_ms=2, now="5")


class Redis:
    """Runs a call that is in time, and answers how many ms it had left. A call takes `way_ms` on its way."""

    title = "Redis at test"

    def __init__(self, store: Store) -> None:
        self.store = store
        self.ahead_ms = 1_769_850_000_000  # of the monotonic clock; a time below 0 would be rounded up
        self.way_ms = 0
        self.trips: list[int] = []

    def now_ms(self) -> int:
        return int(monotonic() * 1_000) + self.ahead_ms

    async def learn_time(self, keys: Sequence[str]) -> None:
        self.store.clock.heard(self.now_ms(), monotonic(), monotonic())

    async def ask(self, commands: Sequence[PackedCommand], *, timed: bool) -> list[Any]:
        self.trips.append(len(commands))
        answers = [self.answer(command.packed.split(b"\r\n")[1:]) for command in commands]
        if timed:
            self.store.clock.heard(self.now_ms(), monotonic(), monotonic())
        return answers

    def answer(self, lines: list[bytes]) -> list[Any]:
        words = lines[1::2]
        args = words[3 + int(words[2]) :]
        now_ms = self.now_ms() + self.way_ms
        if args[0] or not args[4]:
            return [b"each", now_ms, args[4]]
        left_ms = int(args[4]) - now_ms
        return [b"late", now_ms, 0] if left_ms < 0 else [b"each", now_ms, *[left_ms] * (1 + (len(args) - 9) // 5)]


@pytest.fixture
def redis() -> Redis:
    store = Store("redis://127.0.0.1:1/0", timeout_ms=TIMEOUT_MS)
    redis = Redis(store)
    store._servers = redis  # type: ignore[assignment]
    return redis


def passed_ms(begun_s: float) -> float:
    """The time since then, and 2 ms for rounding."""
    return (monotonic() - begun_s) * 1_000 + 2


def ack(message_id: str = "o-1", records: Records = RECORDS) -> Call[Any]:
    return replace(records.ack("orders", message_id, epoch=7), read=lambda _, reply: reply)


async def test_a_call_may_take_effect_as_long_as_its_caller_waits(redis: Redis) -> None:
    begun_s = monotonic()
    first, second = await redis.store.run([ack(), ack("o-2")])

    assert first == second
    assert TIMEOUT_MS - passed_ms(begun_s) < first <= TIMEOUT_MS


async def test_a_caller_may_wait_less_long(redis: Redis) -> None:
    begun_s = monotonic()
    (left_ms,) = await redis.store.run([ack()], begun_s + 0.5)

    assert 500 - passed_ms(begun_s) < left_ms <= 500


async def test_a_call_that_sets_the_clock_has_no_limit(redis: Redis) -> None:
    assert await redis.store.run([ack(records=TIMELESS)]) == [b""]


async def test_a_late_call_is_an_error(redis: Redis) -> None:
    redis.way_ms = TIMEOUT_MS + 100

    with pytest.raises(StoreUnavailable, match="Redis at test got the call too late"):
        await redis.store.run([ack()])
    assert redis.trips == [1, 1]


async def test_a_late_call_is_not_run_again_once_its_moment_has_passed(redis: Redis) -> None:
    with pytest.raises(StoreUnavailable, match="too late"):
        await redis.store.run([ack()], monotonic() - 0.1)
    assert redis.trips == [1]


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
async def test_calls_go_on_after_a_jump_of_the_clock(redis: Redis, jump_ms: int) -> None:
    await redis.store.run([ack()])
    redis.ahead_ms += jump_ms
    await redis.store.run([ack()])
    begun_s = monotonic()
    (left_ms,) = await redis.store.run([ack()])

    assert TIMEOUT_MS - passed_ms(begun_s) < left_ms <= TIMEOUT_MS
    assert redis.trips == ([1, 1, 1, 1] if jump_ms > 0 else [1, 1, 1])
