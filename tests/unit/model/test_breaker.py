"""Tests the circuit breaker with tables: the event at each second, and the state after it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import sleep
from typing import Literal

import pytest

from bridge.model.breaker import Breaker, BreakerState, guarded
from bridge.model.errors import NotFound, StoreUnavailable

CLOSED, HALF_OPEN, OPEN = BreakerState.CLOSED, BreakerState.HALF_OPEN, BreakerState.OPEN

# (second of the event, event, second at which the ended call began, state after the event)
Event = tuple[
    float, Literal["admitted", "refused", "answered", "failed", "timed out", "given up"], float | None, BreakerState
]

STORIES: dict[str, list[Event]] = {
    "a time-out opens it when no call was answered meanwhile": [
        (0.0, "admitted", None, CLOSED),
        (1.5, "timed out", 0.0, OPEN),
        (1.5, "refused", None, OPEN),
        (2.4, "refused", None, OPEN),
    ],
    "a time-out does not open it when another call was answered meanwhile": [
        (0.0, "admitted", None, CLOSED),
        (0.1, "admitted", None, CLOSED),
        (0.2, "answered", 0.1, CLOSED),
        (1.5, "timed out", 0.0, CLOSED),
        (1.6, "admitted", None, CLOSED),
        (3.1, "timed out", 1.6, OPEN),
    ],
    "immediate failures never open it": [
        (0.0, "failed", 0.0, CLOSED),
        (0.1, "failed", 0.1, CLOSED),
        (0.2, "failed", 0.2, CLOSED),
        (0.3, "failed", 0.3, CLOSED),
        (0.4, "failed", 0.4, CLOSED),
        (0.5, "failed", 0.5, CLOSED),
        (0.6, "admitted", None, CLOSED),
    ],
    "half-open it admits one probe, whose answer closes it": [
        (1.5, "timed out", 0.0, OPEN),
        (2.5, "admitted", None, HALF_OPEN),
        (2.5, "refused", None, HALF_OPEN),
        (2.6, "refused", None, HALF_OPEN),
        (2.7, "answered", 2.5, CLOSED),
        (2.7, "admitted", None, CLOSED),
        (2.7, "admitted", None, CLOSED),
    ],
    "each probe that times out doubles the open time, up to two seconds": [
        (1.5, "timed out", 0.0, OPEN),
        (2.4, "refused", None, OPEN),
        (2.5, "admitted", None, HALF_OPEN),
        (4.0, "timed out", 2.5, OPEN),
        (5.9, "refused", None, OPEN),
        (6.0, "admitted", None, HALF_OPEN),
        (7.5, "timed out", 6.0, OPEN),
        (9.4, "refused", None, OPEN),
        (9.5, "admitted", None, HALF_OPEN),
    ],
    "an answer resets the open time": [
        (1.5, "timed out", 0.0, OPEN),
        (2.5, "admitted", None, HALF_OPEN),
        (4.0, "timed out", 2.5, OPEN),
        (6.0, "admitted", None, HALF_OPEN),
        (6.1, "answered", 6.0, CLOSED),
        (7.7, "timed out", 6.2, OPEN),
        (8.6, "refused", None, OPEN),
        (8.7, "admitted", None, HALF_OPEN),
    ],
    "a probe that fails at once closes it, as failing fast holds up no caller": [
        (1.5, "timed out", 0.0, OPEN),
        (2.5, "admitted", None, HALF_OPEN),
        (2.6, "failed", 2.5, CLOSED),
    ],
    "a cancelled probe leaves the probe to the next call": [
        (1.5, "timed out", 0.0, OPEN),
        (2.5, "admitted", None, HALF_OPEN),
        (2.6, "given up", 2.5, OPEN),
        (2.6, "admitted", None, HALF_OPEN),
        (2.6, "refused", None, HALF_OPEN),
        (4.1, "timed out", 2.6, OPEN),
        (6.0, "refused", None, OPEN),
        (6.1, "admitted", None, HALF_OPEN),
    ],
    "a probe that does not end is followed by another probe": [
        (1.5, "timed out", 0.0, OPEN),
        (2.5, "admitted", None, HALF_OPEN),
        (4.4, "refused", None, HALF_OPEN),
        (4.5, "admitted", None, HALF_OPEN),
        (4.6, "refused", None, HALF_OPEN),
        (5.0, "timed out", 2.5, HALF_OPEN),
        (6.0, "timed out", 4.5, OPEN),
    ],
    "failures of calls that began before it opened change nothing": [
        (1.5, "timed out", 0.0, OPEN),
        (1.6, "timed out", 0.1, OPEN),
        (1.7, "failed", 0.2, OPEN),
        (1.8, "given up", 0.3, OPEN),
        (2.4, "refused", None, OPEN),
        (2.5, "admitted", None, HALF_OPEN),
        (2.6, "timed out", 1.2, HALF_OPEN),
        (2.7, "failed", 1.3, HALF_OPEN),
        (2.8, "given up", 1.4, HALF_OPEN),
        (2.9, "refused", None, HALF_OPEN),
    ],
    "a late answer closes it while it is open": [
        (1.5, "timed out", 0.0, OPEN),
        (1.6, "answered", 0.2, CLOSED),
        (1.7, "timed out", 0.2, CLOSED),
        (1.7, "admitted", None, CLOSED),
    ],
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_breaker_follows_the_table_of_events(story: list[Event]) -> None:
    breaker = Breaker(open_s=1.0, longest_s=2.0)
    for now_s, event, began_s, state in story:
        match event, began_s:
            case (("admitted" | "refused"), None):
                assert breaker.admit(now_s) is (event == "admitted"), (now_s, event)
            case "answered", float():
                breaker.answered(now_s)
            case "failed", float(began_s):
                breaker.failed(began_s, now_s)
            case "timed out", float(began_s):
                breaker.timed_out(began_s, now_s)
            case "given up", float(began_s):
                breaker.given_up(began_s, now_s)
            case _:
                pytest.fail(f"no such event: {event} {began_s}")
        assert breaker.state is state, (now_s, event)


def test_refusal_says_when_the_server_is_asked_again() -> None:
    breaker = Breaker(open_s=1.0, longest_s=2.0)
    breaker.timed_out(0.0, 1.5)

    assert breaker.refusal(1.7) == "did not answer in time; asked again in 0.8 s"
    assert breaker.admit(2.5)
    assert breaker.refusal(2.6) == "did not answer in time; is being asked again"


def open_breaker() -> Breaker:
    """An open breaker that refuses calls for an hour."""
    breaker = Breaker(open_s=3_600.0, longest_s=3_600.0)
    with pytest.raises(TimeoutError), guarded(breaker, "Redis", StoreUnavailable, limit_s=2):
        raise TimeoutError
    return breaker


def breaker_before_probe() -> Breaker:
    """An open breaker that admits the next call as its probe."""
    breaker = Breaker(open_s=0.0, longest_s=3_600.0)
    with pytest.raises(TimeoutError), guarded(breaker, "Redis", StoreUnavailable, limit_s=2):
        raise TimeoutError
    return breaker


def test_refused_call_is_not_made() -> None:
    breaker, made = open_breaker(), []

    # Some of the 3,600 s may have passed since it opened.
    refusal = pytest.raises(StoreUnavailable, match=r"^Redis did not answer in time; asked again in 3[56]\d\d\.\d s$")
    with refusal, guarded(breaker, "Redis", StoreUnavailable, limit_s=2):
        made.append(1)
    assert (made, breaker.state) == ([], OPEN)


@pytest.mark.parametrize(
    ("raised", "state"),
    [
        (None, CLOSED),
        (NotFound("none"), CLOSED),
        (ConnectionRefusedError(), CLOSED),
        (TimeoutError(), OPEN),
        (KeyError(), OPEN),
        (asyncio.CancelledError(), OPEN),
    ],
    ids=repr,
)
def test_outcome_of_the_probe_sets_the_state(raised: BaseException | None, state: BreakerState) -> None:
    breaker = breaker_before_probe()

    timeouts = (TimeoutError, KeyError)
    with suppress(BaseException), guarded(breaker, "Redis", StoreUnavailable, limit_s=2, timeouts=timeouts):
        if raised is not None:
            raise raised
    assert breaker.state is state


@pytest.mark.parametrize("raised", [None, TimeoutError()], ids=repr)
def test_inconclusive_probe_leaves_the_probe_to_the_next_call(raised: Exception | None) -> None:
    breaker = breaker_before_probe()

    with suppress(TimeoutError), guarded(breaker, "RabbitMQ", StoreUnavailable, limit_s=2) as call:
        call.conclusive = False
        if raised is not None:
            raise raised
    assert breaker.state is OPEN
    assert breaker.admit(float("inf"))


def test_inconclusive_time_out_does_not_open_the_breaker() -> None:
    breaker = Breaker()

    with suppress(TimeoutError), guarded(breaker, "RabbitMQ", StoreUnavailable, limit_s=2) as call:
        call.conclusive = False
        raise TimeoutError
    assert breaker.state is CLOSED


LATE_STORIES: dict[str, list[tuple[float, float, bool, BreakerState]]] = {
    # (second of the end, second of the begin, whether it counts, state after it)
    "all calls of one stall are excused": [
        (4.0, 0.0, False, CLOSED),
        (4.0, 1.9, False, CLOSED),
        (4.1, 0.3, False, CLOSED),
    ],
    "a call after the stall counts": [(1.8, 0.0, False, CLOSED), (3.6, 1.8, True, OPEN)],
    "calls that overlap excuse each other once": [
        (1.8, 0.0, False, CLOSED),
        (2.7, 0.9, False, CLOSED),
        (3.6, 1.8, True, OPEN),
    ],
}


@pytest.mark.parametrize("story", LATE_STORIES.values(), ids=LATE_STORIES)
def test_late_time_out_counts_once_the_server_had_time_to_answer(
    story: list[tuple[float, float, bool, BreakerState]],
) -> None:
    breaker = Breaker()
    for now_s, began_s, counts, state in story:
        assert (breaker.timed_out(began_s, now_s, 0.3), breaker.state) == (counts, state)


def test_each_answer_allows_another_excuse() -> None:
    breaker = Breaker()
    for began_s in (0.0, 10.0):
        assert not breaker.timed_out(began_s, began_s + 1.8, 0.3)
        breaker.answered(began_s + 2)


def test_late_end_of_the_probe_lets_the_next_call_probe() -> None:
    breaker = Breaker(open_s=1.0)
    breaker.timed_out(0.0, 1.5)
    assert breaker.admit(2.5)
    assert not breaker.timed_out(2.5, 4.3, 0.3)
    assert breaker.admit(4.3)
    assert breaker.timed_out(4.3, 6.1, 0.3)
    assert not breaker.admit(6.2)


async def test_time_limit_that_passed_while_the_process_stood_still_is_excused() -> None:
    breaker = Breaker()

    with suppress(TimeoutError), guarded(breaker, "Redis", StoreUnavailable, limit_s=0.01) as call:
        async with asyncio.timeout(0.01):
            asyncio.get_running_loop().call_soon(sleep, 0.4)
            await asyncio.Event().wait()
    assert (breaker.state, call.timed_out) == (CLOSED, False)
