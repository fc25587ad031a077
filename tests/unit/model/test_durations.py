"""Tests parsing of durations and instants as people write them."""

import pytest

from bridge.model.durations import check_not_past, format_instant, parse_duration_ms, parse_instant_ms

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("written", "duration_ms"),
    [
        (0, 0),
        (1_500, 1_500),
        (999 * DAY, 999 * DAY),
        ("0s", 0),
        ("1500ms", 1_500),
        ("90s", 90_000),
        ("15m", 15 * MINUTE),
        ("2h", 2 * HOUR),
        ("7d", 7 * DAY),
        ("1h30m", 90 * MINUTE),
        ("1d2h3m4s5ms", DAY + 2 * HOUR + 3 * MINUTE + 4_005),
        ("1.5s", 1_500),
        ("0.25h", 15 * MINUTE),
        ("0.5ms", 1),
        ("1.0001s", 1_001),
        ("2.3s", 2_300),
        ("PT1H30M", 90 * MINUTE),
        ("PT90S", 90_000),
        ("PT0.250S", 250),
        ("P1D", DAY),
        ("P2W", 14 * DAY),
        ("P1W2DT3H", 9 * DAY + 3 * HOUR),
        ("PT0S", 0),
    ],
)
def test_every_form_of_duration_is_parsed(written: object, duration_ms: int) -> None:
    assert parse_duration_ms(written) == duration_ms


@pytest.mark.parametrize(
    "written",
    [
        -1,
        1.5,
        True,
        None,
        [],
        b"90s",
        "",
        "90",
        "s",
        "-1s",
        "1 s",
        "1S",
        "90s ",
        "1h 30m",
        "1e3s",
        ".5s",
        "1.s",
        "1y",
        "1w",
        "P",
        "PT",
        "P1Y",
        "P1M",
        "P1DT",
        "-PT1S",
        "PT1.5H",
        "PT0.0001S",
        "pt1h",
        "90s\n",
        "1" * 64 + "s",
    ],
)
def test_malformed_duration_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match=r"must be|negative"):
        parse_duration_ms(written)


@pytest.mark.parametrize(
    ("written", "instant_ms"),
    [
        (0, 0),
        (253_402_300_799_999, 253_402_300_799_999),
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-31T09:00:00Z", 1_769_850_000_000),
        ("2026-01-31T09:00:00.123Z", 1_769_850_000_123),
        ("2026-01-31t10:00:00+01:00", 1_769_850_000_000),
        ("2026-01-31 04:00:00-05:00", 1_769_850_000_000),
        ("1969-12-31T23:59:59Z", 0),
        ("2026-01-31T09:00:00.1230Z", 1_769_850_000_123),
        ("2026-01-31T09:00:00.1231Z", 1_769_850_000_124),
        ("2026-01-31T09:00:00.123000001Z", 1_769_850_000_124),
        ("2026-01-31T09:00:00,000000000Z", 1_769_850_000_000),
        (100_000_000_000, 100_000_000_000),
    ],
)
def test_every_form_of_instant_is_parsed(written: object, instant_ms: int) -> None:
    assert parse_instant_ms(written) == instant_ms


@pytest.mark.parametrize(
    "written",
    [
        -1,
        253_402_300_800_000,
        1.0,
        True,
        None,
        "",
        "now",
        "2026-01-31",
        "2026-01-31T09:00:00",
        "2026-02-30T09:00:00Z",
        "2026-01-31T25:00:00Z",
        "2026-W05-6T09:00:00Z",
    ],
)
def test_malformed_instant_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="must"):
        parse_instant_ms(written)


@pytest.mark.parametrize("seconds", [1, 1_769_850_000, 99_999_999_999])
def test_a_number_of_seconds_is_refused_with_the_milliseconds_to_send(seconds: int) -> None:
    with pytest.raises(ValueError, match=f"must be Unix milliseconds: .* {seconds * 1_000}$"):
        parse_instant_ms(seconds)


def test_a_moment_that_is_more_than_a_day_past_is_refused() -> None:
    now_ms = 1_769_850_000_000.5
    for instant_ms in (0, 1_769_850_000_000 - DAY + 1, 1_769_850_000_001):
        check_not_past(instant_ms, now_ms)
    with pytest.raises(ValueError, match=r"more than a day past, in Unix milliseconds: 1769763600000 is 2026-01-30T"):
        check_not_past(1_769_850_000_000 - DAY, now_ms)


@pytest.mark.parametrize(
    ("instant_ms", "written"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_769_850_000_007, "2026-01-31T09:00:00.007Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_instant_is_formatted_in_utc_with_milliseconds(instant_ms: int, written: str) -> None:
    assert format_instant(instant_ms) == written
    assert parse_instant_ms(written) == instant_ms
