"""What follows from how a call went. Pure.

A receiver that asks for patience (429, or 503 with Retry-After) speaks of itself and not of the message: it is left
alone for so long, and the message keeps the attempt. Anything else but 2xx and 410 is an attempt that failed.
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
    """Why an attempt failed."""

    STATUS = "status"
    REDIRECT = "redirect"
    TIMEOUT = "timeout"
    CONNECTION = "connection"  # none was to be had, or it broke, or what came is not HTTP
    ANSWER_TOO_LONG = "answer_too_long"
    ADDRESS = "address"  # the URL leads where callbacks may not go
    DESTINATION = "destination"  # the message names no receiver that there is


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    reason: Reason
    says: str


@dataclass(frozen=True, slots=True)
class Acked:
    pass


@dataclass(frozen=True, slots=True)
class Retry:
    """A failed attempt: the message comes again `after_ms`, or is dead where its retries are used up."""

    after_ms: int
    reason: Reason
    says: str


@dataclass(frozen=True, slots=True)
class Held:
    """The receiver is left alone for so long; no attempt is counted."""

    for_ms: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The receiver is gone for good; no attempt is counted."""


Outcome = Acked | Retry | Held | Ended


def after(answer: Answer | Failure, *, attempt: int, backoff: Backoff, now_ms: float) -> Outcome:
    """`attempt`: how many there have been, with this one. `now_ms`: Unix ms, for a Retry-After that is a date."""
    after_ms = backoff.delay_ms(max(1, attempt))
    if isinstance(answer, Failure):
        return Retry(after_ms, answer.reason, answer.says)
    status, asked_ms = answer.status, retry_after_ms(answer.retry_after, now_ms)
    if 200 <= status < 300:
        return Acked()
    if status == 410:
        return Ended()
    if status == 429 or (status == 503 and asked_ms is not None):
        hold_ms = backoff.delay_ms(1) if asked_ms is None else asked_ms
        return Held(min(max(hold_ms, SHORTEST_HOLD_MS), LONGEST_HOLD_MS))
    reason = Reason.REDIRECT if 300 <= status < 400 else Reason.STATUS
    return Retry(after_ms, reason, f"answered {status}")


def retry_after_ms(value: str | None, now_ms: float) -> int | None:
    """Seconds, or a date (RFC 9110, section 10.2.3), as ms from now; None: neither."""
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
