"""Decides after each try of a call: done, another try after a pause, or an error. Pure, apart from clock and chance."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final, Generic, TypeVar

import httpx2

from delaybridge_client import encode
from delaybridge_client.errors import (
    DelaybridgeError,
    Problem,
    RequestUnderWay,
    Unanswered,
    UnexpectedAnswer,
    problem_of,
)
from delaybridge_client.operation import Answer, Operation

T = TypeVar("T")
_PROBLEM: Final = "application/problem+json"
_TOO_MANY: Final = 429
_TEMPORARY: Final = (429, 500, 502, 503, 504)  # a proxy answers with some of them, without a problem document
_NEVER_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """The rules by which a client repeats a failed call.

    `attempts`: the most tries, with the first one. `first`: the pause after the first failed try; each further pause is
    twice as long, up to `longest`. Each pause is random: up to half of it is taken away. The header `Retry-After` makes
    a pause longer. `patience`: no try begins later than this time after the first try.
    """

    attempts: int = 8
    first: timedelta = timedelta(milliseconds=100)
    longest: timedelta = timedelta(seconds=5)
    patience: timedelta = timedelta(seconds=30)

    def pause_s(self, failed: int, chance: Callable[[], float] = random.random) -> float:
        """Returns the pause in seconds after `failed` failed tries in a row. `chance`: returns a number from 0 to 1."""
        longest = min(self.first * (1 << min(failed - 1, 20)), self.longest).total_seconds()
        return longest * (1 - chance() / 2)


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """The call succeeded. `value`: its result."""

    value: T


@dataclass(frozen=True, slots=True)
class Again:
    """The call is to be tried again after a pause of `pause_s` seconds."""

    pause_s: float


class Tries(Generic[T]):
    """The tries of one call. `where`: the bridge's address, for error messages."""

    def __init__(
        self,
        operation: Operation[T],
        retries: Retries,
        where: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._operation = operation
        self._retries = retries
        self._where = where
        self._clock = clock
        self._chance = chance
        self._failed = 0
        self._give_up_at = clock() + (retries.patience + operation.wait).total_seconds()

    @property
    def _called(self) -> str:
        return f"{self._operation.method} {encode.path(self._operation.path, self._operation.names)}"

    @property
    def left_s(self) -> float:
        """The seconds that are left for tries."""
        return max(self._give_up_at - self._clock(), 0.0)

    def after_error(self, error: httpx2.TransportError) -> Again:
        """Decides what follows a try without an answer: another try.

        Raises:
            DelaybridgeError: there is no further try.
        """
        never_sent = isinstance(error, _NEVER_SENT)
        what = "was not reached" if never_sent else "did not answer"
        failure = Unanswered(
            f"{self._where} {what}: {str(error) or type(error).__name__} ({self._called}, {self._failed + 1} tries)",
            never_sent=never_sent,
        )
        return self._again(failure, may_repeat=never_sent or self._operation.repeatable)

    def after_answer(self, answer: Answer) -> Done[T] | Again:
        """Decides what follows an answer: the call is done, or is tried again.

        Raises:
            DelaybridgeError: the bridge refused the call, and there is no further try.
        """
        if answer.status in self._operation.accepts:
            try:
                return Done(self._operation.read(answer))
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise self._unexpected(answer, f"which can't be read: {error!r}") from error
        failure = self._failure(answer)
        may_repeat = answer.status == _TOO_MANY or (self._operation.repeatable and is_temporary(failure))
        return self._again(failure, may_repeat=may_repeat, at_least_s=retry_after_s(answer.headers) or 0.0)

    def _again(self, failure: DelaybridgeError, *, may_repeat: bool, at_least_s: float = 0.0) -> Again:
        self._failed += 1
        # Chance also spreads the clients that a bridge has asked to wait equally long.
        pause_s = max(self._retries.pause_s(self._failed, self._chance), at_least_s * (1 + self._chance() / 10))
        if not may_repeat or self._failed >= self._retries.attempts or pause_s > self.left_s:
            raise failure
        return Again(pause_s)

    def _failure(self, answer: Answer) -> Problem | UnexpectedAnswer:
        if answer.headers.get("content-type", "").partition(";")[0] != _PROBLEM:
            return self._unexpected(answer, "which is no answer of a bridge")
        try:
            members: Mapping[str, Any] = json.loads(answer.content)
            return problem_of({"status": answer.status, **members}, retry_after_s=retry_after_s(answer.headers))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            return self._unexpected(answer, f"whose problem can't be read: {error!r}")

    def _unexpected(self, answer: Answer, why: str) -> UnexpectedAnswer:
        kind = answer.headers.get("content-type") or "no content type"
        return UnexpectedAnswer(
            f"{self._where} answered {self._called} with {answer.status} and {kind}, {why}",
            status=answer.status,
        )


def is_temporary(error: DelaybridgeError) -> bool:
    """Whether a call that failed with this error may succeed later."""
    if isinstance(error, Problem | UnexpectedAnswer):
        return error.status in _TEMPORARY or isinstance(error, RequestUnderWay)
    return isinstance(error, Unanswered)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds that the header `Retry-After` asks to wait; None if it is missing or malformed. The header
    has a number or a date. A date is compared with the answer's header `Date`."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    until = _date(text)
    if until is None:
        return None
    now = _date(headers.get("date", "")) or datetime.now(UTC)
    return max((until - now).total_seconds(), 0.0)


def _date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
