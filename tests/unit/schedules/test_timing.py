"""Tests the ticks of schedules: intervals, begin and end, jitter, and the search for the latest ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.durations import parse_duration_ms, parse_instant_ms
from bridge.service.schedules.timing import Timing, between, following, latest, tick_id

HOUR_MS = 3_600_000

# The length of the interval, a tick, a moment, and the next ones. Clocks change in each zone as in test_cron.py. An
# interval does not: a day is 24 hours, so the time of day is another one afterwards.
INTERVALS = [
    (
        "1d",
        "2026-03-28T02:30:00+01:00",
        "2026-03-28T12:00:00Z",
        ["2026-03-29T03:30:00+02:00", "2026-03-30T03:30:00+02:00"],
    ),
    (
        "1d",
        "2026-10-24T02:30:00+02:00",
        "2026-10-24T12:00:00Z",
        ["2026-10-25T01:30:00+01:00", "2026-10-26T01:30:00+01:00"],
    ),
    (
        "12h",
        "2026-03-07T14:30:00-05:00",
        "2026-03-07T20:00:00Z",
        ["2026-03-08T03:30:00-04:00", "2026-03-08T15:30:00-04:00"],
    ),
    (
        "12h",
        "2026-10-31T13:30:00-04:00",
        "2026-10-31T18:00:00Z",
        ["2026-11-01T01:30:00-04:00", "2026-11-01T12:30:00-05:00"],
    ),
    (
        "6h",
        "2026-10-03T20:15:00+10:30",
        "2026-10-03T10:00:00Z",
        ["2026-10-04T02:45:00+11:00", "2026-10-04T08:45:00+11:00"],
    ),
    (
        "6h",
        "2026-04-04T20:15:00+11:00",
        "2026-04-04T10:00:00Z",
        ["2026-04-05T01:45:00+10:30", "2026-04-05T07:45:00+10:30"],
    ),
    (
        "90s",
        "1970-01-01T00:00:00Z",
        "2026-01-01T00:00:00Z",
        ["2026-01-01T00:01:30Z", "2026-01-01T00:03:00Z"],
    ),
    (
        "1h",
        "2030-01-01T00:20:00Z",
        "2026-01-01T00:19:59.999Z",
        ["2026-01-01T00:20:00Z", "2026-01-01T01:20:00Z"],
    ),
]


def every(duration: str, **further: Any) -> Timing:
    return Timing(every_ms=parse_duration_ms(duration), **further)


@pytest.mark.parametrize(("duration", "anchor", "after", "expected"), INTERVALS)
def test_an_interval_counts_real_time(duration: str, anchor: str, after: str, expected: list[str]) -> None:
    timing = every(duration, anchor_ms=parse_instant_ms(anchor))
    found = following(timing, "s", parse_instant_ms(after), len(expected))
    assert [tick.at_ms for tick in found] == [parse_instant_ms(moment) for moment in expected]


def test_start_and_end_may_be_ticks() -> None:
    start_ms, end_ms = 10 * HOUR_MS, 13 * HOUR_MS
    found = following(every("1h", start_ms=start_ms, end_ms=end_ms), "s", 0, 10)
    assert [tick.at_ms // HOUR_MS for tick in found] == [10, 11, 12, 13]


@given(st.text("abc", min_size=1, max_size=5), st.integers(0, 10**9), st.integers(0, 60_000))
def test_jitter_is_the_same_for_everybody_and_within_its_window(name: str, after_ms: int, window_ms: int) -> None:
    timing = every("60s", jitter_ms=window_ms)
    found = following(timing, name, after_ms, 20)
    assert found == following(timing, name, after_ms, 20)
    assert all(0 <= tick.due_ms - tick.at_ms <= window_ms for tick in found)
    assert [tick.at_ms for tick in found] == [tick.at_ms for tick in following(every("60s"), name, after_ms, 20)]


def test_jitter_spreads_the_ticks() -> None:
    delays = sorted(tick.due_ms - tick.at_ms for tick in following(every("60s", jitter_ms=60_000), "s", 0, 1_000))
    assert all(abs(delays[at] - at * 60) < 5_000 for at in range(0, 1_000, 100))


@given(st.integers(1, 10_000), st.integers(0, 10**8), st.integers(0, 10**8), st.integers(1, 50))
def test_latest_ticks_are_the_last_of_all(every_s: int, after_ms: int, lasts_ms: int, most: int) -> None:
    timing, until_ms = Timing(every_ms=every_s * 1_000), after_ms + lasts_ms
    every_tick = list(between(timing, "s", after_ms, until_ms))
    found, left_out = latest(timing, "s", after_ms, until_ms, most)
    assert found == every_tick[-most:]
    assert left_out <= len(every_tick) - len(found)


def test_latest_ticks_of_ten_years_cost_no_more_than_those_of_a_day() -> None:
    timing = Timing(cron="* * * * *", timezone="Europe/Vienna")
    until_ms = parse_instant_ms("2026-01-01T00:00:00Z")
    found, left_out = latest(timing, "s", parse_instant_ms("2016-01-01T00:00:00Z"), until_ms, 100)
    assert len(found) == 100
    assert found[-1].at_ms == until_ms
    assert left_out < 10_000


def test_id_of_a_tick_is_its_moment() -> None:
    moment_ms = parse_instant_ms("2026-12-01T03:00:00Z")
    assert tick_id("nightly", moment_ms) == "nightly@2026-12-01T03:00:00Z"
    assert tick_id("nightly", moment_ms + 250) == "nightly@2026-12-01T03:00:00.250Z"
