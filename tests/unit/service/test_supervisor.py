"""Tests that a loop goes on whatever fails, says so, and ends only when its owner cancels it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from bridge.broker.client.connection import translated
from bridge.metrics.loops import FAILURES
from bridge.model.errors import BrokerUnavailable, StoreUnavailable
from bridge.model.part_state import OK, STARTING, Failed, PartState, Waiting, text_of
from bridge.service.health import supervisor
from bridge.service.health.supervisor import HOLD_S, Joined, Status, retrying


def cancelled() -> asyncio.Future[None]:
    """A future that somebody has cancelled, and not the task that waits for it."""
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    return future


class Clock:
    """The moment that the supervisor reads. A pause of a loop passes at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000.0
        monkeypatch.setattr(supervisor, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(supervisor, "time", lambda: self.now_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture(autouse=True)
def logged() -> Iterator[list[MutableMapping[str, Any]]]:
    with capture_logs() as lines:
        yield lines


def doing(*results: float | BaseException | None) -> Callable[[], Awaitable[float | None]]:
    """A pass that ends with one of the results after the other, and with the last one again and again."""
    left = [*results]

    async def once() -> float | None:
        result = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(result, BaseException):
            raise result
        return result

    return once


def events(logged: Sequence[MutableMapping[str, Any]]) -> list[tuple[str, str]]:
    return [(line["event"], line["log_level"]) for line in logged]


async def test_a_loop_runs_again_after_a_call_it_waited_for_was_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, again = 0, asyncio.Event()
    monkeypatch.setattr(supervisor, "_LONGEST_PAUSE_S", 0.0)

    async def once() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            await cancelled()
        again.set()
        await asyncio.Event().wait()

    status = Status("loop")
    supervised = asyncio.create_task(retrying(status, once))
    await again.wait()
    assert runs == 2
    assert isinstance(status.state, Failed)
    assert status.state.error == "CancelledError"
    supervised.cancel()
    with pytest.raises(asyncio.CancelledError):
        await supervised


async def test_a_loop_says_what_fails_until_a_whole_pass_went_well(clock: Clock) -> None:
    status = Status("loop")
    once = doing(KeyError("secret"), IndexError(), BrokerUnavailable("away"), KeyError(), 0.0)
    seen = []
    for _ in range(5):
        await status.attempt(once)
        seen.append(status.state)
        clock.now_s += 60
    failed = [Failed(*one) for one in (("KeyError", 1_000_000, 1), ("IndexError", 1_000_000, 2))]
    assert seen == [*failed, failed[1], Failed("KeyError", 1_000_000, 3), OK]
    assert text_of(seen[3]) == "failed: KeyError 3 times since 1970-01-01T00:16:40.000Z"


async def test_a_failing_loop_pauses_longer_each_time_up_to_a_minute_and_begins_again_after_a_good_pass() -> None:
    status = Status("loop", retry_s=0.5)
    once = doing(*[KeyError()] * 8, 7.0, StoreUnavailable("away"), KeyError(), KeyError(), None)
    pauses = [await status.attempt(once) for _ in range(13)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 7.0, 0.5, 1, 2, None]


async def test_an_outage_is_logged_once_and_an_error_once_for_each_kind(
    clock: Clock, logged: list[MutableMapping[str, Any]]
) -> None:
    status = Status("loop")
    once = doing(*[StoreUnavailable("away")] * 3, *[KeyError()] * 5, *[ValueError()] * 5, 0.0)
    for _ in range(14):
        await status.attempt(once)
        clock.now_s += 100
    waiting, failed = ("loop.waiting", "warning"), ("loop.failed", "error")
    assert events(logged) == [waiting, failed, failed, ("loop.recovered", "info")]
    assert (logged[3]["loop"], logged[3]["count"]) == ("loop", 10)


async def test_a_loop_that_fails_and_recovers_by_turns_logs_once_a_minute(
    clock: Clock, logged: list[MutableMapping[str, Any]]
) -> None:
    status = Status("loop")
    for _ in range(120):
        await status.attempt(doing(KeyError()))
        await status.attempt(doing(StoreUnavailable("away")))
        await status.attempt(doing(0.0))
        clock.now_s += 1
    assert sum(event == "loop.failed" for event, _ in events(logged)) == 2
    assert sum(event == "loop.waiting" for event, _ in events(logged)) == 2


async def test_a_session_works_again_once_it_lasted_without_an_error(clock: Clock) -> None:
    status = Status("loop")
    seen: list[PartState] = []

    def after(seconds: float) -> None:
        clock.now_s += seconds
        seen.append(status.state)

    await status.attempt(doing(KeyError()))
    after(60)
    status.working()
    after(HOLD_S - 1)
    status.working()
    status.failed(ValueError())
    after(HOLD_S - 1)
    after(1)
    assert seen == [Failed("KeyError", 1_000_000, 1)] * 2 + [Failed("ValueError", 1_000_000, 2), OK]
    await status.attempt(doing(BrokerUnavailable("away")))
    assert status.state == Waiting("away", int(clock.now_s * 1_000))


async def test_a_message_at_fault_that_goes_well_later_ends_the_failure(clock: Clock) -> None:
    status = Status("loop", state=OK)
    status.failed(KeyError(), item="m-1")
    status.failed(KeyError(), item="m-2")
    seen = []
    for item in ("m-0", "m-1", "m-2"):
        status.passed()
        status.mended([item])
        seen.append(isinstance(status.state, Failed))
    assert seen == [True, True, False]


async def test_one_redis_of_several_that_is_away_does_not_stop_a_loop(
    clock: Clock, logged: list[MutableMapping[str, Any]]
) -> None:
    status = Status("loop")
    for _ in range(3):
        assert await status.attempt(doing(StoreUnavailable("one is away", partly=True))) == 1.0
        assert status.state == OK
    assert events(logged) == [("loop.waiting", "warning")]


async def test_every_error_is_counted() -> None:
    status, count = Status("counted"), FAILURES.labels("counted")
    for _ in range(3):
        await status.attempt(doing(KeyError()))
    status.failed(KeyError())
    assert count._value.get() == 4


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([], STARTING),
        ([OK, STARTING], STARTING),
        ([Waiting("away", 1), STARTING, OK], Waiting("away", 1)),
        ([OK, Failed("KeyError", 1, 1), Waiting("away", 1)], Failed("KeyError", 1, 1)),
    ],
)
def test_a_loop_of_loops_is_in_the_worst_state_of_them(states: list[PartState], expected: PartState) -> None:
    joined = Joined("all", lambda: [Status("one", state=state) for state in states])
    assert joined.state == expected


async def test_a_call_that_is_cancelled_by_its_caller_is_cancelled() -> None:
    async def call() -> None:
        async with translated():
            began.set()
            await asyncio.Event().wait()

    began = asyncio.Event()
    calling = asyncio.create_task(call())
    await began.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


async def test_a_bug_in_a_call_does_not_raise_a_lost_connection() -> None:
    with pytest.raises(KeyError):
        async with translated():
            raise KeyError
