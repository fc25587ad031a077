"""Tests which ticks of a schedule are sent: on time, missed, overlapped, and after changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.durations import parse_instant_ms
from bridge.model.message import Message, State
from bridge.service.schedules.ticks import (
    GRACE_MS,
    LEAD_MS,
    LOOK_MS,
    MOST_TICKS,
    Missed,
    Overlap,
    Rules,
    is_decided,
    owed,
    plan,
    wake_ms,
)
from bridge.service.schedules.timing import Timing, between
from tests.records import record

NOON_MS = parse_instant_ms("2026-06-01T12:00:00Z")
MINUTE_MS = 60_000
EVERY_MINUTE = Timing(cron="* * * * *")


def minutes(
    rules: Rules, *, position_ms: int, now_ms: int, lives: bool = False, timing: Timing = EVERY_MINUTE
) -> list[int]:
    """The ticks that are sent, in minutes after noon."""
    planned = plan(EVERY_MINUTE, rules, "s", position_ms, now_ms, former_lives=False)
    return [(tick.at_ms - NOON_MS) // MINUTE_MS for tick in planned.ticks]


@pytest.mark.parametrize(
    ("rules", "sent", "missed"),
    [
        (Rules(missed=Missed.SKIP), [], 10),
        (Rules(missed=Missed.LAST), [10], 9),
        (Rules(missed=Missed.ALL), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 0),
        (Rules(missed=Missed.ALL, missed_max=3), [8, 9, 10], 7),
    ],
)
def test_after_ten_minutes_without_a_planner(rules: Rules, sent: list[int], missed: int) -> None:
    now_ms = NOON_MS + 10 * MINUTE_MS + 30_000
    planned = plan(EVERY_MINUTE, rules, "s", NOON_MS, now_ms, former_lives=False)
    assert [(tick.at_ms - NOON_MS) // MINUTE_MS for tick in planned.ticks] == sent
    assert (planned.position_ms, planned.missed) == (now_ms + LEAD_MS, missed)
    # The next tick comes as usual.
    assert minutes(rules, position_ms=planned.position_ms, now_ms=NOON_MS + 11 * MINUTE_MS - 1_000) == [11]


def test_a_tick_that_is_a_little_late_is_not_missed() -> None:
    skips = Rules(missed=Missed.SKIP)
    assert minutes(skips, position_ms=NOON_MS, now_ms=NOON_MS + MINUTE_MS + GRACE_MS) == [1]
    assert minutes(skips, position_ms=NOON_MS, now_ms=NOON_MS + MINUTE_MS + GRACE_MS + 1) == []


def test_a_late_tick_whose_jitter_makes_it_due_later_is_not_missed() -> None:
    jittered = Timing(cron="0 * * * *", jitter_ms=MINUTE_MS * 60)
    (tick,) = between(jittered, "s", NOON_MS - 1, NOON_MS)
    assert tick.due_ms > NOON_MS + GRACE_MS
    planned = plan(jittered, Rules(missed=Missed.SKIP), "s", NOON_MS - 1, tick.due_ms - 1, former_lives=False)
    assert [each for each in planned.ticks if each.at_ms == NOON_MS] == [tick]


def test_a_tick_is_sent_ahead_once() -> None:
    rules = Rules()
    assert minutes(rules, position_ms=NOON_MS, now_ms=NOON_MS + MINUTE_MS - LEAD_MS - 1) == []
    assert minutes(rules, position_ms=NOON_MS, now_ms=NOON_MS + MINUTE_MS - LEAD_MS) == [1]
    assert wake_ms(EVERY_MINUTE, rules, "s", NOON_MS) == NOON_MS + MINUTE_MS - LEAD_MS
    assert minutes(rules, position_ms=NOON_MS + MINUTE_MS, now_ms=NOON_MS + MINUTE_MS - LEAD_MS) == []


def test_no_tick_overlaps_a_former_one_that_lives() -> None:
    rules = Rules(overlap=Overlap.SKIP)
    now_ms = NOON_MS + MINUTE_MS - LOOK_MS
    planned = plan(EVERY_MINUTE, rules, "s", NOON_MS, now_ms, former_lives=True)
    assert (planned.ticks, planned.overlapped, planned.position_ms) == ([], 1, now_ms + LOOK_MS)
    assert minutes(rules, position_ms=NOON_MS, now_ms=now_ms) == [1]
    assert minutes(rules, position_ms=NOON_MS, now_ms=now_ms - 1) == []  # it looks as late as it can


def test_of_all_missed_ticks_one_is_sent_where_none_may_overlap() -> None:
    rules = Rules(missed=Missed.ALL, overlap=Overlap.SKIP)
    planned = plan(EVERY_MINUTE, rules, "s", NOON_MS, NOON_MS + 10 * MINUTE_MS + 30_000, former_lives=False)
    assert [len(planned.ticks), planned.overlapped, planned.missed] == [1, 9, 0]


def test_a_plan_sends_so_many_ticks_and_the_next_one_goes_on() -> None:
    rules = Rules(missed=Missed.ALL, missed_max=250)
    now_ms, position_ms = NOON_MS + 1_000 * MINUTE_MS + 30_000, NOON_MS
    sizes, sent = [], []
    while position_ms < now_ms:
        planned = plan(EVERY_MINUTE, rules, "s", position_ms, now_ms, former_lives=False)
        sizes.append(len(planned.ticks))
        sent += [(tick.at_ms - NOON_MS) // MINUTE_MS for tick in planned.ticks]
        position_ms = planned.position_ms
    assert sizes == [MOST_TICKS, MOST_TICKS, 50]
    assert sent == list(range(751, 1_001))


TIMINGS = st.builds(
    Timing,
    every_ms=st.integers(1, 120).map(lambda each: each * 1_000),
    anchor_ms=st.integers(0, 10**6),
    jitter_ms=st.just(0) | st.integers(0, 1_000),
) | st.builds(
    Timing, cron=st.sampled_from(["* * * * *", "*/3 * * * *", "5,6,50 * * * *"]), jitter_ms=st.integers(0, 120_000)
)
PAUSES_MS = st.lists(st.integers(0, 20_000) | st.integers(0, 200_000) | st.integers(0, 3_000_000), max_size=25)


@given(TIMINGS, st.sampled_from(Missed), PAUSES_MS)
def test_each_tick_is_decided_once_whenever_somebody_plans(
    timing: Timing, missed: Missed, pauses_ms: list[int]
) -> None:
    rules = Rules(missed=missed, missed_max=1_000)
    position_ms = now_ms = NOON_MS
    sent: list[int] = []
    due: list[int] = []
    late: list[int] = []
    for pause_ms in pauses_ms:
        now_ms += pause_ms
        planned = plan(timing, rules, "s", position_ms, now_ms, former_lives=False)
        assert planned.position_ms >= position_ms
        assert all(position_ms < tick.at_ms <= planned.position_ms for tick in planned.ticks)
        assert len(planned.ticks) <= MOST_TICKS
        sent += [tick.at_ms for tick in planned.ticks]
        due += [tick.due_ms for tick in planned.ticks]
        late += [tick.at_ms for tick in planned.ticks if tick.due_ms < now_ms - GRACE_MS]
        position_ms = planned.position_ms
    every_tick = [tick.at_ms for tick in between(timing, "s", NOON_MS, position_ms)]
    assert sent == sorted(set(sent))
    assert due == sorted(set(due))
    # None is cut off if those that one plan finds missed are not more than the rules take.
    if missed is Missed.ALL and len(list(between(timing, "s", NOON_MS, now_ms))) <= 1_000:
        assert sent == every_tick
    if missed is Missed.SKIP:
        assert not late


def test_ticks_that_are_owed_end_now() -> None:
    now_ms = NOON_MS + 3 * MINUTE_MS + 100
    planned = owed(EVERY_MINUTE, Rules(missed=Missed.ALL), "s", NOON_MS, now_ms, former_lives=False)
    assert [(tick.at_ms - NOON_MS) // MINUTE_MS for tick in planned.ticks] == [1, 2, 3]
    assert planned.position_ms == now_ms
    soon_ms = NOON_MS + 4 * MINUTE_MS - 100
    assert owed(EVERY_MINUTE, Rules(), "s", now_ms, soon_ms, former_lives=False).ticks == []


def tick(state: State, created_ms: int) -> Message:
    return Message(record=record(id="s@1", state=state, created_ms=created_ms), envelope=None)


@pytest.mark.parametrize(
    ("message", "decided"),
    [
        (None, False),
        (tick(State.WAITING, 50), True),
        (tick(State.ACKED, 50), True),
        (tick(State.DEAD, 150), True),
        # A pause at 100 has deleted it, and the schedule goes on.
        (tick(State.DELETED, 50), False),
        (tick(State.DELETED, 100), False),
        # Somebody has deleted it, and it stays so.
        (tick(State.DELETED, 101), True),
    ],
)
def test_a_tick_with_a_message_is_not_sent_again_unless_a_pause_deleted_it(
    message: Message | None, decided: bool
) -> None:
    assert is_decided(message, since_ms=100) is decided
