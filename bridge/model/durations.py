"""Converts durations and instants between the forms that people write and milliseconds. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from math import ceil
from typing import Final

LATEST_INSTANT_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, in Unix milliseconds. Python's `datetime` has no later date."""

_DAY_MS: Final = 86_400_000
# March 1973. As Unix seconds, the number is a moment of the year 5138.
_FIRST_PLAUSIBLE_MS: Final = 100_000_000_000
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:[.,](\d+))?")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SHORT_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_SHORT = re.compile(rf"(?:{_SHORT_PART.pattern})+")
# ISO 8601 durations without years and months, because those have no fixed length in milliseconds.
_ISO = re.compile(
    r"P(?!$)(?:(?P<w>[0-9]+)W)?(?:(?P<d>[0-9]+)D)?"
    r"(?:T(?=[0-9])(?:(?P<h>[0-9]+)H)?(?:(?P<m>[0-9]+)M)?(?:(?P<s>[0-9]+(?:\.[0-9]{1,3})?)S)?)?"
)
# The pattern for JSON schemas. They know no named groups.
DURATION_PATTERN = "^(?:" + _SHORT.pattern + "|" + re.sub(r"\?P<\w>", "", _ISO.pattern) + ")$"
DURATION_FORMS = (
    'an integer of milliseconds, or a string such as "1500ms", "90s", "15m", "2h", "7d", "1h30m", "PT1H30M"'
)
INSTANT_FORMS = 'an RFC 3339 time with an offset such as "2026-01-31T09:00:00Z", or an integer of Unix milliseconds'


def parse_duration_ms(value: object) -> int:
    """Returns the duration in milliseconds. A fraction of a millisecond is rounded up: nothing is early.

    Raises:
        ValueError: the value is negative or has none of the forms in `DURATION_FORMS`.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise ValueError("must not be negative")
        return value
    if isinstance(value, str) and len(value) <= 64:
        if _SHORT.fullmatch(value):
            return ceil(sum(Decimal(n) * _UNIT_MS[unit] for n, unit in _SHORT_PART.findall(value)))
        if iso := _ISO.fullmatch(value):
            part = {name: Decimal(number or 0) for name, number in iso.groupdict().items()}
            days = part["w"] * 7 + part["d"]
            return ceil(((days * 24 + part["h"]) * 60 + part["m"]) * 60_000 + part["s"] * 1_000)
    raise ValueError(f"must be {DURATION_FORMS}")


def parse_instant_ms(value: object) -> int:
    """Returns the instant in Unix milliseconds. A fraction of a millisecond is rounded up: nothing is early.

    Raises:
        ValueError: the value has none of the forms in `INSTANT_FORMS`, has no offset, is out of range, or looks like
            Unix seconds.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= LATEST_INSTANT_MS:
            raise ValueError(f"must be from 0 to {LATEST_INSTANT_MS} Unix milliseconds (the years 1970 to 9999)")
        if looks_like_seconds(value):
            raise ValueError(error_of_seconds(value))
        return value
    if isinstance(value, str) and len(value) <= 64 and (written := _INSTANT.match(value)):
        try:
            moment = datetime.fromisoformat(value.upper())
        except ValueError:
            raise ValueError(f"must be {INSTANT_FORMS}") from None
        if moment.tzinfo is None:
            raise ValueError("must have an offset, as in 2026-01-31T09:00:00Z or 2026-01-31T10:00:00+01:00")
        # datetime cuts what is shorter than a microsecond.
        cut = any(digit != "0" for digit in (written[1] or "")[6:])
        return max(0, -(-((moment - _EPOCH) // _MICROSECOND + cut) // 1_000))
    raise ValueError(f"must be {INSTANT_FORMS}")


def looks_like_seconds(instant_ms: int) -> bool:
    """Whether the number is probably meant as Unix seconds: as milliseconds it would be in the years 1970 to 1973.

    False for 0, which means now.
    """
    return 0 < instant_ms < _FIRST_PLAUSIBLE_MS


def error_of_seconds(instant_ms: int) -> str:
    """Returns the error text for an instant that a client probably gave in seconds (`looks_like_seconds`)."""
    return f"must be Unix milliseconds: {instant_ms} is in 1970 to 1973; Unix seconds are meant as {instant_ms * 1_000}"


def check_not_past(instant_ms: int, now_ms: float) -> None:
    """Checks the moment at which something is to happen. `0` is now.

    Raises:
        ValueError: the moment is more than a day past.
    """
    if instant_ms and instant_ms < now_ms - _DAY_MS:
        raise ValueError(
            f"must not be more than a day past, in Unix milliseconds: {instant_ms} is {format_instant(instant_ms)}; "
            "0 is now"
        )


def format_duration(duration_ms: int) -> str:
    """Formats the duration in its largest whole unit: `1500ms`, `75s`, `1h`, `7d`; zero as `0`."""
    unit, of_unit_ms = next(one for one in reversed(_UNIT_MS.items()) if duration_ms % one[1] == 0)
    return f"{duration_ms // of_unit_ms}{unit}" if duration_ms else "0"


def format_instant(instant_ms: int) -> str:
    """Formats the instant as RFC 3339 in UTC with milliseconds: `2026-01-31T09:00:00.000Z`."""
    second, ms = divmod(instant_ms, 1_000)
    return f"{_format_second(second)}.{ms:03d}Z"


@lru_cache(maxsize=4_096)
def _format_second(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}"
