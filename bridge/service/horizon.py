"""Refuses a due moment beyond the longest delay."""

from __future__ import annotations

from math import ceil

from bridge.model.errors import InvalidRequest
from bridge.model.values import MAX_DELAY_MS


def check_horizon(field: str, value: int, left_ms: float) -> None:
    """Checks that a message waits no longer than the wheel can hold it, which is 999 days (`MAX_DELAY_MS`).

    `field`: the request's field that set the due moment. `value`: its value. `left_ms`: the delay in ms that follows
    from `value`.

    Raises:
        InvalidRequest: the delay is longer than 999 days.
    """
    if left_ms > MAX_DELAY_MS:
        beyond_ms = ceil(left_ms - MAX_DELAY_MS)
        raise InvalidRequest.of(field, value, MAX_DELAY_MS, f"is {beyond_ms} ms beyond the longest delay of 999 days")
