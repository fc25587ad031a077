"""Defines why a call failed. `DelaybridgeError` is the root; each problem type of the bridge has a class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class DelaybridgeError(Exception):
    """The root of all errors of this package."""


class InvalidArgument(DelaybridgeError, ValueError):
    """An argument is wrong, and nothing was sent: a datetime without a time zone, or a body that JSON can't express."""


class Unanswered(DelaybridgeError):
    """No bridge answered in time. `never_sent`: the request was not sent; otherwise the call may have taken effect."""

    def __init__(self, message: str, *, never_sent: bool) -> None:
        super().__init__(message)
        self.never_sent = never_sent


class UnexpectedAnswer(DelaybridgeError):
    """The answer is not that of a bridge: the address is wrong, or a proxy answered. `status`: the HTTP status."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """One wrong field of a request: its name, its value, the limit that the value breaks, and a sentence."""

    field: str
    value: Any
    limit: Any
    message: str


class Problem(DelaybridgeError):
    """The bridge refused the call with a problem (RFC 9457).

    `type`, `title`, `status`, `detail`, `errors` and `request_id` are members of the problem. `retry_after_s`: how many
    seconds the bridge asks to wait; None if it does not ask. `members`: all members of the problem, also those without
    an attribute.
    """

    def __init__(self, members: Mapping[str, Any], *, retry_after_s: float | None = None) -> None:
        self.members = members
        self.type = str(members.get("type", "about:blank"))
        self.title = str(members.get("title", ""))
        self.status = int(members["status"])
        self.detail = str(members.get("detail", ""))
        self.errors = tuple(
            FieldError(
                field=str(error.get("field", "")),
                value=error.get("value"),
                limit=error.get("limit"),
                message=str(error.get("message", "")),
            )
            for error in members.get("errors") or ()
        )
        self.request_id = str(members.get("request_id", ""))
        self.retry_after_s = retry_after_s
        super().__init__(self._text())

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), dict(self.members), self.retry_after_s)

    def _text(self) -> str:
        wrong = "; ".join(
            f"{error.field}: {error.message} (given: {error.value!r}, limit: {error.limit!r})" for error in self.errors
        )
        return f"{self.title} ({self.status}): {wrong or self.detail} [request id {self.request_id}]"


class BrokenRequest(Problem):
    """400: the bridge could not read the request."""


class Unauthorized(Problem):
    """401: a token is required, or the token is not valid."""


class Forbidden(Problem):
    """403: the token does not allow the call."""


class NotFound(Problem):
    """404: there is no such message, topic or path."""


class Conflict(Problem):
    """409: the state of the message or topic forbids the call. `state`: the message's state; None: the bridge does not
    name it."""

    @property
    def state(self) -> str | None:
        return self.members.get("state") or None


class LeaseEnded(Conflict):
    """409: the lease of the receipt has ended. Another consumer may have the message."""


class BodyNotKept(Conflict):
    """409: Redis did not keep the body of the message, so the message can't be made due earlier."""


class RequestUnderWay(Conflict):
    """409: an earlier request with this idempotency key has not ended."""


class TopicNotEmpty(Conflict):
    """409: the topic has messages."""


class PreconditionFailed(Problem):
    """412: somebody changed the message or schedule since its ETag was read."""


class TooLarge(Problem):
    """413: the request or a body is too large."""


class InvalidRequest(Problem):
    """422: `errors` names each wrong field, its value and the limit."""


class TooManyRequests(Problem):
    """429: the token may make no more requests now."""


class BridgeFailed(Problem):
    """500: an error in the bridge itself. The bridge's log has the request id."""


class Unavailable(Problem):
    """503: RabbitMQ or Redis is away, and nothing was promised."""


_BY_TYPE: Mapping[str, type[Problem]] = {
    "lease-ended": LeaseEnded,
    "body-not-kept": BodyNotKept,
    "request-under-way": RequestUnderWay,
    "topic-not-empty": TopicNotEmpty,
}
_BY_STATUS: Mapping[int, type[Problem]] = {
    400: BrokenRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: PreconditionFailed,
    413: TooLarge,
    422: InvalidRequest,
    429: TooManyRequests,
    500: BridgeFailed,
    503: Unavailable,
}


def problem_of(members: Mapping[str, Any], *, retry_after_s: float | None = None) -> Problem:
    """Returns the error for a problem: by the last part of the problem's type, or else by its status."""
    slug = str(members.get("type", "")).rpartition(":")[2]
    found = _BY_TYPE.get(slug) or _BY_STATUS.get(int(members["status"]), Problem)
    return found(members, retry_after_s=retry_after_s)


def _again(cls: type[Problem], members: Mapping[str, Any], retry_after_s: float | None) -> Problem:
    """Makes a problem from its members, for pickle."""
    return cls(members, retry_after_s=retry_after_s)
