"""Defines the errors of failed calls, whose texts name the host, the cause and the next step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bridge.cli import failures

_NEXT: Mapping[int, str] = {
    failures.NOT_FOUND: "`delaybridge topics` shows the topics, and `delaybridge list TOPIC` the messages of one.",
    failures.FORBIDDEN_BY_STATE: "`delaybridge get TOPIC ID` and `delaybridge topics show TOPIC` show the state.",
    failures.NOT_ALLOWED: "Set BRIDGE_TOKEN to a token that allows it; `delaybridge token create` makes one.",
    failures.UNAVAILABLE: "{again} GET {url}/health/ready says what is away.",
}
_CODES: Mapping[int, int] = {
    400: failures.WRONG,
    401: failures.NOT_ALLOWED,
    403: failures.NOT_ALLOWED,
    404: failures.NOT_FOUND,
    409: failures.FORBIDDEN_BY_STATE,
    412: failures.FORBIDDEN_BY_STATE,
    413: failures.WRONG,
    422: failures.WRONG,
    429: failures.UNAVAILABLE,
    503: failures.UNAVAILABLE,
}


class CallFailed(Exception):
    """A call failed. The error's text is for the user. `code`: the exit code of the command."""

    code = failures.FAILED


class Unanswered(CallFailed):
    """Nobody answered, or a proxy could not reach the bridge."""

    code = failures.UNAVAILABLE


class NotSecure(CallFailed):
    """The server is not trusted, does not trust this client, or does not speak TLS."""


class NotABridge(CallFailed):
    """A server that is no bridge answered."""


class Refused(CallFailed):
    """The bridge refused the call with a problem document (RFC 9457). `status`: its HTTP status. `again`: a sentence
    for the user that says how to repeat the call."""

    def __init__(self, url: str, problem: Mapping[str, Any], again: str) -> None:
        self.status = int(problem["status"])
        self.code = _CODES.get(self.status, failures.FAILED)
        super().__init__("\n  ".join(_lines(url, problem, self.code, again)))


def _lines(url: str, problem: Mapping[str, Any], code: int, again: str) -> Iterator[str]:
    yield f"{problem.get('title')} ({problem['status']} from {url})"
    faults = problem.get("errors") or ()
    for fault in faults:
        yield f"{fault['field']}: {fault['message']} (given: {fault['value']!r}, limit: {fault['limit']!r})"
    if not faults:
        yield str(problem.get("detail"))
    if "state" in problem:
        yield f"state: {problem['state']}"
    if "retry_after_s" in problem:
        yield f"retry after: {problem['retry_after_s']} s"
    if code in _NEXT:
        yield _NEXT[code].format(url=url, again=again)
    yield f"request id: {problem.get('request_id')}"
