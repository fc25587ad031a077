"""Tests the store clock against a store whose clock differs by a known amount."""

from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.store.clock import StoreClock

ROUND_TRIPS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=20)


def difference_ms(clock: StoreClock) -> tuple[float, float]:
    """How many ms the store clock is ahead of this process's monotonic clock: lower and upper bound."""
    before_ms = monotonic() * 1_000
    now_ms = clock.now_ms()
    return now_ms - monotonic() * 1_000, now_ms - before_ms


def differs_by(clock: StoreClock, ms: float) -> bool:
    """Whether the store clock is `ms` ahead of this process's, as far as two looks at that can tell."""
    least, most = difference_ms(clock)
    return least - 0.01 <= ms <= most + 0.01


def hear(clock: StoreClock, *, offset_ms: int, sent_ms: int, there_ms: int, back_ms: int) -> None:
    """Feeds the clock one answer. `sent_ms` is monotonic; `there_ms` and `back_ms` are the travel times."""
    clock.heard(sent_ms + there_ms + offset_ms, sent_ms / 1_000, (sent_ms + there_ms + back_ms) / 1_000)


def test_clock_without_an_answer_cannot_be_read() -> None:
    clock = StoreClock()

    assert not clock.known
    with pytest.raises(RuntimeError, match="unknown until Redis has answered"):
        clock.now_ms()


@given(offset_ms=st.integers(-(10**12), 10**12), trips=ROUND_TRIPS)
def test_clock_is_never_ahead_and_at_most_the_shortest_return_behind(
    offset_ms: int, trips: list[tuple[int, int]]
) -> None:
    clock = StoreClock()
    for number, (there_ms, back_ms) in enumerate(trips):
        hear(clock, offset_ms=offset_ms, sent_ms=number * 1_000, there_ms=there_ms, back_ms=back_ms)
    least, most = difference_ms(clock)

    rounding = 0.01
    assert least <= offset_ms + rounding
    assert most >= offset_ms - min(back_ms for _, back_ms in trips) - rounding


@given(offset_ms=st.integers(-(10**12), 10**12), trips=ROUND_TRIPS)
def test_latest_moment_is_never_behind_and_at_most_the_shortest_way_there_ahead(
    offset_ms: int, trips: list[tuple[int, int]]
) -> None:
    clock = StoreClock()
    assert clock.latest_ms() is None
    for number, (there_ms, back_ms) in enumerate(trips):
        hear(clock, offset_ms=offset_ms, sent_ms=number * 1_000, there_ms=there_ms, back_ms=back_ms)
    before_ms = monotonic() * 1_000
    latest_ms = clock.latest_ms()
    assert latest_ms is not None
    rounding = 0.01
    assert latest_ms - before_ms >= offset_ms - rounding
    # Redis tells whole milliseconds.
    least_there_ms = min(there_ms for there_ms, _ in trips)
    assert latest_ms - monotonic() * 1_000 <= offset_ms + least_there_ms + 1 + rounding


def test_latest_moment_is_unknown_until_a_replaced_server_answers() -> None:
    clock = StoreClock()
    hear(clock, offset_ms=5, sent_ms=0, there_ms=1, back_ms=1)
    clock.replaced()
    assert clock.latest_ms() is None
    hear(clock, offset_ms=5, sent_ms=1_000, there_ms=1, back_ms=1)
    assert clock.latest_ms() is not None


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000, 200, -200])
def test_clock_follows_a_jump_at_the_next_answer(jump_ms: int) -> None:
    clock = StoreClock()
    hear(clock, offset_ms=5_000, sent_ms=0, there_ms=1, back_ms=1)
    hear(clock, offset_ms=5_000 + jump_ms, sent_ms=1_000, there_ms=1, back_ms=1)
    least, most = difference_ms(clock)

    assert least <= 5_000 + jump_ms + 0.01
    assert most >= 5_000 + jump_ms - 1.01


def test_slowest_of_several_servers_sets_the_clock() -> None:
    clock = StoreClock()
    for server, offset_ms in (("one", 5_000), ("two", 3_000), ("three", 9_000)):
        clock.heard(offset_ms, 0, 0, server)
    assert differs_by(clock, 3_000)

    clock.only({"one", "three"})
    assert differs_by(clock, 5_000)
    clock.only(set())
    assert differs_by(clock, 5_000)


def test_fastest_of_several_servers_has_passed_a_moment_first() -> None:
    clock = StoreClock()
    clock.heard(5_000, 0, 0, "one")
    assert clock.fastest_ms(2.0) == pytest.approx(7_000, abs=0.01)
    for server, offset_ms in (("two", 3_000), ("three", 9_000)):
        clock.heard(offset_ms, 0, 0, server)
    assert clock.fastest_ms(2.0) == pytest.approx(11_000, abs=0.01)

    clock.only({"one", "two"})
    assert clock.fastest_ms(2.0) == pytest.approx(7_000, abs=0.01)


def test_only_answers_of_the_new_master_count_after_a_failover() -> None:
    clock = StoreClock()
    clock.heard(5_000, 0, 0)
    clock.replaced()
    assert clock.known
    # This answer fits the earlier bounds, so without `replaced()` the earlier, tighter bound would stay.
    clock.heard(5_000, 0, 0.001)
    assert differs_by(clock, 4_999)


@pytest.mark.parametrize(
    ("jump_ms", "steps_ms"),
    [(3_600_000, [3_599_997]), (-3_600_000, [-3_599_997]), (1_100, [1_097]), (900, []), (-900, [])],
)
def test_clock_notes_a_step_of_a_second_or_more(jump_ms: int, steps_ms: list[int]) -> None:
    clock = StoreClock()
    for sent_ms, offset_ms in ((0, 0), (1_000, jump_ms), (2_000, jump_ms)):
        hear(clock, offset_ms=offset_ms, sent_ms=sent_ms, there_ms=1, back_ms=1)
    assert [step.ahead_ms for step in clock.steps] == pytest.approx(steps_ms)


def test_another_server_in_the_place_of_the_first_is_no_step() -> None:
    clock = StoreClock()
    clock.heard(5_000, 0, 0)
    clock.replaced()
    clock.heard(3_605_000, 0, 0)
    assert not clock.steps


def test_clock_keeps_the_four_latest_steps() -> None:
    clock = StoreClock()
    for number in range(10):
        clock.heard(number * 5_000, 0, 0, "one")
    assert [step.server for step in clock.steps] == ["one"] * 4


@pytest.mark.parametrize(
    ("offsets_ms", "ahead_ms"),
    [
        ((0,), 0),
        ((0, 7_200_000), 7_200_000),
        ((0, 7_200_000, 0), 0),
        ((0, -7_200_000), 0),
        ((0, -7_200_000, 0), 7_200_000),
        ((0, -3_000, 2_000, -1_000, 1_000), 4_000),
        ((0, 900), 0),
    ],
)
def test_clock_knows_by_how_much_it_may_be_ahead_of_a_moment_that_it_wrote(
    offsets_ms: tuple[int, ...], ahead_ms: int
) -> None:
    clock = StoreClock()
    for offset_ms in offsets_ms:
        clock.heard(offset_ms, 0, 0)
    clock.heard(0, 0, 0, "another")
    assert clock.ahead_ms == pytest.approx(ahead_ms, abs=10)
