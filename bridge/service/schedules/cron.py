"""Computes when a cron expression matches, in a time zone. Pure.

cronsim parses the expression and knows the calendar. This module decides what a change of the clocks does. It follows
Debian's cron (man 8 cron):

* An expression with a fixed minute and hour names times of day. Each of these times matches once a day. A time that the
  clocks skip matches at the first minute after the gap. A time that comes twice matches when it comes first.
* An expression whose minute or hour begins with `*` matches each of its minutes that really passes. No minute of a gap
  matches, and the minutes of a repeated hour match twice.

cronsim follows these rules, except where clocks change by half an hour (Australia/Lord_Howe): there it leaves out
matches of the second kind of expression. So this module matches an expression of the second kind separately within each
span of one UTC offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from cronsim import CronSim, CronSimError

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - a clock on the wall
_WORDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_PROBE_S: Final = 12 * 3_600  # no zone changes its offset twice in so little time


def written_out(expression: str) -> str:
    """Returns the five fields that a word such as `@daily` means. Returns any other expression as it is."""
    return _WORDS.get(expression.strip(), expression)


def check(expression: str) -> None:
    """Checks a cron expression of five fields.

    Raises:
        ValueError: the expression is wrong; the text says why, and continues a sentence that begins with `cron`.
    """
    if expression.startswith("@"):
        raise ValueError(f"must have 5 fields, or be one of {', '.join(_WORDS)}")
    fields = expression.split()
    if len(fields) != 5:
        raise ValueError(f"must have 5 fields (minute, hour, day, month, day of the week), and has {len(fields)}")
    try:
        CronSim(expression, _EPOCH)
    except CronSimError as error:
        part = str(error).removeprefix("Bad ")
        raise ValueError(f"has a wrong {part}") from None


def matches(expression: str, zone: tzinfo, after_s: int) -> Iterator[int]:
    """Yields the moments after `after_s` at which the expression matches. All are Unix seconds. Ends if no match
    follows within 50 years."""
    minute, hour, *_ = expression.split()
    found = _of_each_span if minute.startswith("*") or hour.startswith("*") else _of_each_day
    return found(expression, zone, after_s)


def _of_each_day(expression: str, zone: tzinfo, after_s: int) -> Iterator[int]:
    for moment in CronSim(expression, datetime.fromtimestamp(after_s, UTC).astimezone(zone)):
        # If `after_s` is in the second pass of a repeated hour, cronsim begins with the first pass.
        if (at_s := int(moment.timestamp())) > after_s:
            yield at_s


def _of_each_span(expression: str, zone: tzinfo, after_s: int) -> Iterator[int]:
    offset_s, begins_s = _offset_s(zone, after_s + 1), after_s + 1
    while True:
        for wall in CronSim(expression, _EPOCH + timedelta(seconds=begins_s - 1 + offset_s)):
            at_s = int((wall - _EPOCH).total_seconds()) - offset_s
            change_s = _change_s(zone, begins_s, at_s, offset_s)
            if change_s is not None:
                begins_s, offset_s = change_s, _offset_s(zone, change_s)
                break
            yield at_s
            begins_s = at_s
        else:
            return


def _change_s(zone: tzinfo, from_s: int, to_s: int, offset_s: int) -> int | None:
    """Returns the first moment from `from_s` to `to_s` at which the UTC offset is not `offset_s` seconds; None: there
    is none. Moments are Unix seconds."""
    same_s = from_s
    while same_s < to_s:
        probed_s = min(same_s + _PROBE_S, to_s)
        if _offset_s(zone, probed_s) != offset_s:
            while probed_s - same_s > 1:
                middle_s = (same_s + probed_s) // 2
                if _offset_s(zone, middle_s) == offset_s:
                    same_s = middle_s
                else:
                    probed_s = middle_s
            return probed_s
        same_s = probed_s
    return None


def _offset_s(zone: tzinfo, at_s: int) -> int:
    offset = datetime.fromtimestamp(at_s, zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())
