"""Refuses requests that never reach the application: defines the problem types, and writes the answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from starlette.requests import Request
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from bridge.http import problems, request_id
from bridge.http.problems import ProblemType
from bridge.model.errors import Unavailable

NOT_HTTP = ProblemType(400, "not-http", "The request is not valid HTTP")
TOO_SLOW = ProblemType(408, "too-slow", "The request arrived too slowly")
TARGET_TOO_LONG = ProblemType(414, "target-too-long", "The path with its query is too long")
HEAD_TOO_LARGE = ProblemType(431, "head-too-large", "The head of the request is too large")
UNKNOWN_CODING = ProblemType(501, "unknown-transfer-coding", "The transfer coding of the body is unknown")
TOO_MANY_CONNECTIONS = ProblemType(503, "too-many-connections", "Too many connections are open")
UNAVAILABLE = problems.KINDS[Unavailable]

_ALWAYS: Final = ("/health/", "/metrics")  # small answers, for the programs that restart the process


def is_always_answered(path: str) -> bool:
    """Whether the bridge answers requests for the path even while it refuses all others: health and metrics."""
    return path.startswith(_ALWAYS)


async def refuse(error: Unavailable, scope: Scope, receive: Receive, send: Send) -> None:
    """Refuses a request with the error, in place of the application."""
    identity = request_id.give(scope, b"")
    response = problems.answer(Request(scope), error)
    response.raw_headers.append((request_id.HEADER, identity))
    await response(scope, receive, send)


def refusal_bytes(problem_type: ProblemType, detail: str, default_headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Returns the bytes of a whole HTTP response with the problem. The response says that the connection closes.
    `default_headers`: the headers that the server adds to each response."""
    identity = request_id.new()
    document = problems.document(problem_type, detail, identity.decode())
    headers = [
        *default_headers,
        (b"content-type", problems.MEDIA_TYPE.encode()),
        (b"content-length", b"%d" % len(document)),
        (b"x-request-id", identity),
        (b"connection", b"close"),
    ]
    if problem_type.status == 503:
        headers.append((b"retry-after", b"1"))
    head = b"".join(b"%b: %b\r\n" % header for header in headers)
    return b"%b%b\r\n%b" % (STATUS_LINE[problem_type.status], head, document)
