"""Tests when cron expressions match, most of all where clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from bridge.service.schedules import cron

VIENNA, NEW_YORK, LORD_HOWE = "Europe/Vienna", "America/New_York", "Australia/Lord_Howe"

# Zone, expression, the moment before, and the next matches, all in UTC. In 2026 clocks change so:
# in Vienna on 29 March at 2:00 to 3:00, and on 25 October at 3:00 to 2:00;
# in New York on 8 March at 2:00 to 3:00, and on 1 November at 2:00 to 1:00;
# on Lord Howe Island, by half an hour, on 4 October at 2:00 to 2:30, and on 5 April at 2:00 to 1:30.
EDGES = [
    # A time of day that is skipped matches right behind the gap.
    (VIENNA, "30 2 * * *", "2026-03-28T00:00", ["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"]),
    (NEW_YORK, "30 2 * * *", "2026-03-07T00:00", ["2026-03-07T07:30", "2026-03-08T07:00", "2026-03-09T06:30"]),
    (LORD_HOWE, "15 2 * * *", "2026-10-02T00:00", ["2026-10-02T15:45", "2026-10-03T15:30", "2026-10-04T15:15"]),
    # Two of them in the gap match once.
    (VIENNA, "10,50 2 * * *", "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T00:10", "2026-03-30T00:50"]),
    (LORD_HOWE, "5,25,45 2 * * *", "2026-10-03T00:00", ["2026-10-03T15:30", "2026-10-03T15:45", "2026-10-04T15:05"]),
    # A time of day that comes twice matches the first time.
    (VIENNA, "30 2 * * *", "2026-10-24T00:00", ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"]),
    (NEW_YORK, "30 1 * * *", "2026-10-31T00:00", ["2026-10-31T05:30", "2026-11-01T05:30", "2026-11-02T06:30"]),
    (LORD_HOWE, "45 1 * * *", "2026-04-03T00:00", ["2026-04-03T14:45", "2026-04-04T14:45", "2026-04-05T15:15"]),
    # Also if the first one has just passed.
    (VIENNA, "30 2 * * *", "2026-10-25T01:15", ["2026-10-26T01:30", "2026-10-27T01:30"]),
    (LORD_HOWE, "45 1 * * *", "2026-04-04T15:05", ["2026-04-05T15:15", "2026-04-06T15:15"]),
    # Every hour is each hour that passes.
    (VIENNA, "0 * * * *", "2026-03-28T23:30", ["2026-03-29T00:00", "2026-03-29T01:00", "2026-03-29T02:00"]),
    (NEW_YORK, "15 * * * *", "2026-03-08T06:00", ["2026-03-08T06:15", "2026-03-08T07:15", "2026-03-08T08:15"]),
    (VIENNA, "30 * * * *", "2026-10-24T23:45", ["2026-10-25T00:30", "2026-10-25T01:30", "2026-10-25T02:30"]),
    (NEW_YORK, "*/30 1 * * *", "2026-11-01T00:00", [f"2026-11-01T{at}" for at in ("05:00", "05:30", "06:00", "06:30")]),
    (LORD_HOWE, "30 * * * *", "2026-10-03T14:30", ["2026-10-03T15:00", "2026-10-03T15:30", "2026-10-03T16:30"]),
    (LORD_HOWE, "0 * * * *", "2026-10-03T14:00", ["2026-10-03T14:30", "2026-10-03T16:00", "2026-10-03T17:00"]),
    (LORD_HOWE, "45 * * * *", "2026-04-04T14:00", ["2026-04-04T14:45", "2026-04-04T15:15", "2026-04-04T16:15"]),
    (
        LORD_HOWE,
        "*/20 1 * * *",
        "2026-04-04T12:00",
        ["2026-04-04T14:00", "2026-04-04T14:20", "2026-04-04T14:40", "2026-04-04T15:10"],
    ),
    # Of an hour that is skipped, nothing is made up.
    (VIENNA, "*/30 2 * * *", "2026-03-28T12:00", ["2026-03-30T00:00", "2026-03-30T00:30"]),
]
ZONES = [*(VIENNA, NEW_YORK, LORD_HOWE), "UTC", "Africa/Casablanca", "America/Sao_Paulo", "Asia/Kathmandu"]
# Clocks change on these days, or near them, in some of the zones.
DAYS = ["2026-03-08", "2026-03-29", "2026-04-04", "2026-10-03", "2026-10-25", "2026-11-01", "2018-11-04", "2026-06-01"]


def seconds(moment: str) -> int:
    return int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp())


def found(expression: str, zone: str, after_s: int, until_s: int) -> list[int]:
    return list(takewhile(lambda at_s: at_s <= until_s, cron.matches(expression, ZoneInfo(zone), after_s)))


@pytest.mark.parametrize(("zone", "expression", "after", "expected"), EDGES)
def test_matches_where_clocks_change(zone: str, expression: str, after: str, expected: list[str]) -> None:
    moments = islice(cron.matches(expression, ZoneInfo(zone), seconds(after)), len(expected))
    assert [f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%M}" for at_s in moments] == expected


def listed(numbers: st.SearchStrategy[int]) -> st.SearchStrategy[str]:
    return st.lists(numbers, min_size=1, max_size=3).map(lambda some: ",".join(map(str, sorted(set(some)))))


MINUTES, HOURS = listed(st.integers(0, 59)), listed(st.integers(0, 23) | st.integers(0, 4))
STEPS = st.sampled_from(["*", "*/7", "*/15", "*/30"])
DATES = st.sampled_from(["* * *", "* * *", "*/2 * *", "* * SUN", "29,4,1 * *", "* 3,10 *"])
REAL_TIME = st.builds("{} {} {}".format, STEPS, HOURS | STEPS, DATES) | st.builds(
    "{} {} {}".format, MINUTES, st.sampled_from(["*", "*/2", "*/3"]), DATES
)
TIMES_OF_DAY = st.builds("{} {} {}".format, MINUTES, HOURS, DATES)


def naive_real_time(expression: str, zone: str, after_s: int, until_s: int) -> list[int]:
    """Looks at the clock on the wall in each minute that passes."""
    fields = CronSim(expression, datetime(2000, 1, 1))  # noqa: DTZ001 - only its fields are used
    matching = []
    for at_s in range(after_s - after_s % 60 + 60, until_s + 1, 60):
        wall = datetime.fromtimestamp(at_s, ZoneInfo(zone))
        on_time = wall.minute in fields.minutes and wall.hour in fields.hours
        if on_time and wall.month in fields.months and fields.match_day(wall.date()):
            matching.append(at_s)
    return matching


def naive_times_of_day(expression: str, zone: str, after_s: int, until_s: int) -> list[int]:
    """Looks for each time of day: when the clock on the wall first shows it, or a later one if it skips it."""
    fields = CronSim(expression, datetime(2000, 1, 1))  # noqa: DTZ001 - only its fields are used
    walls = [
        (at_s, datetime.fromtimestamp(at_s, ZoneInfo(zone)).replace(tzinfo=None))
        for at_s in range(after_s - 86_400 - after_s % 60, until_s + 86_400, 60)
    ]
    day, last = walls[0][1].replace(hour=0, minute=0), walls[-1][1]
    wanted = []
    while day < last:
        if day.month in fields.months and fields.match_day(day.date()):
            wanted += [day.replace(hour=hour, minute=minute) for hour in fields.hours for minute in fields.minutes]
        day += timedelta(days=1)
    matching, at = set(), 0
    for time_of_day in sorted(wanted):
        while at < len(walls) and walls[at][1] < time_of_day:
            at += 1
        if at < len(walls):
            matching.add(walls[at][0])
    return sorted(at_s for at_s in matching if after_s < at_s <= until_s)


@given(st.sampled_from(DAYS), st.integers(-30, 30), st.sampled_from(ZONES), REAL_TIME)
def test_an_expression_of_real_time_matches_as_the_clock_on_the_wall(
    day: str, hours: int, zone: str, expression: str
) -> None:
    after_s = seconds(day) + hours * 3_600 - 1
    until_s = after_s + 2 * 86_400
    assert found(expression, zone, after_s, until_s) == naive_real_time(expression, zone, after_s, until_s)


@given(st.sampled_from(DAYS), st.integers(-30, 30), st.sampled_from(ZONES), TIMES_OF_DAY)
def test_a_time_of_day_matches_once_a_day(day: str, hours: int, zone: str, expression: str) -> None:
    after_s = seconds(day) + hours * 3_600 - 1
    until_s = after_s + 2 * 86_400
    assert found(expression, zone, after_s, until_s) == naive_times_of_day(expression, zone, after_s, until_s)


@given(
    st.sampled_from(DAYS), st.integers(0, 2_880), st.sampled_from(ZONES), REAL_TIME | TIMES_OF_DAY, st.integers(0, 59)
)
def test_where_the_search_begins_decides_nothing(
    day: str, minutes: int, zone: str, expression: str, more_s: int
) -> None:
    from_s = seconds(day) - 86_400
    middle_s, until_s = from_s + minutes * 60 + more_s, from_s + 2 * 86_400
    whole = found(expression, zone, from_s, until_s)
    assert [*found(expression, zone, from_s, middle_s), *found(expression, zone, middle_s, until_s)] == whole


@pytest.mark.parametrize("expression", ["* * */20 * 1L", "0 0 * 2 MON#5"])
def test_search_for_rare_matches_ends(expression: str) -> None:
    assert len(list(islice(cron.matches(expression, ZoneInfo(VIENNA), seconds("2026-01-01T00:00")), 2))) in {0, 2}


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("* * * *", "must have 5 fields"),
        ("0 * * * * *", "must have 5 fields"),
        ("61 * * * *", "has a wrong minute"),
        ("* 24 * * *", "has a wrong hour"),
        ("* * 31 2 *", "has a wrong day-of-month"),
        ("* * * 13 *", "has a wrong month"),
        ("* * * * FOO", "has a wrong day-of-week"),
    ],
)
def test_wrong_expression_is_refused_with_its_fault(expression: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        cron.check(expression)


@pytest.mark.parametrize(
    ("word", "fields"),
    [("@yearly", "0 0 1 1 *"), (" @daily ", "0 0 * * *"), ("@hourly", "0 * * * *"), ("5 4 * * *", "5 4 * * *")],
)
def test_a_word_stands_for_five_fields(word: str, fields: str) -> None:
    assert cron.written_out(word) == fields
    cron.check(cron.written_out(word))


def test_an_unknown_word_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="must have 5 fields, or be one of @yearly, @annually, @monthly, "):
        cron.check("@reboot")
