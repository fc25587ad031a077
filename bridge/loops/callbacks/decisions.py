"""Decides what a receiver's answer means for the message and for the receiver. Pure.

2xx acknowledges the message. 410 ends the subscription. 429, or 503 with Retry-After, means that the receiver is busy.
The bridge then makes no call for the time in Retry-After, and counts no attempt. After a 429 without Retry-After, the
time is the subscription's first back-off. The time is at least 1 s and at most 1 h. Every other answer is a failed
attempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Final

from bridge.model.values import Backoff

SHORTEST_HOLD_MS: Final = 1_000
LONGEST_HOLD_MS: Final = 3_600_000


class Reason(StrEnum):
    """Why an attempt failed. Subscriptions show these words."""

    STATUS = "status"
    REDIRECT = "redirect"
    TIMEOUT = "timeout"
    CONNECTION = "connection"  # refused or broken, or the answer is not HTTP
    ADDRESS = "address"  # the settings do not allow callbacks to the host's address
    DESTINATION = "destination"  # the message names no receiver, or an unknown one


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Acked:
    pass


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt failed. The message is retried after `after_ms`, or dead-lettered if it has no retry left."""

    after_ms: int
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Held:
    """The receiver is busy: the bridge makes no calls for `for_ms`, and counts no attempt."""

    for_ms: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The receiver ends the subscription. The bridge counts no attempt."""


Outcome = Acked | Retry | Held | Ended


def decide(result: Response | Failure, *, attempt: int, backoff: Backoff, now_ms: float) -> Outcome:
    """Decides what the result of an attempt means. `attempt`: the number of this attempt, from 1. `now_ms`: Unix ms,
    for a Retry-After that is a date."""
    after_ms = backoff.delay_ms(max(1, attempt))
    if isinstance(result, Failure):
        return Retry(after_ms, result.reason, result.detail)
    status, requested_ms = result.status, retry_after_ms(result.retry_after, now_ms)
    if 200 <= status < 300:
        return Acked()
    if status == 410:
        return Ended()
    if status == 429 or (status == 503 and requested_ms is not None):
        hold_ms = backoff.delay_ms(1) if requested_ms is None else requested_ms
        return Held(min(max(hold_ms, SHORTEST_HOLD_MS), LONGEST_HOLD_MS))
    reason = Reason.REDIRECT if 300 <= status < 400 else Reason.STATUS
    return Retry(after_ms, reason, f"answered {status}")


def retry_after_ms(value: str | None, now_ms: float) -> int | None:
    """Returns the time in a Retry-After header, in ms from now. `value`: seconds or a date (RFC 9110, section 10.2.3);
    None or any other text gives None. `now_ms`: Unix ms."""
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return int(value[:9]) * 1_000
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, round(moment.timestamp() * 1_000 - now_ms))
