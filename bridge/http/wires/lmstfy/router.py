"""Matches paths to routes by the rules of Gin, and turns the errors of handlers into answers.

A request with a wrong method gets 404 and not 405. Most paths with one slash too many at their end are redirected to
the path without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final, Generic, TypeVar
from urllib.parse import quote

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bridge.http.scope_keys import LOGGED_PATH
from bridge.http.wires.lmstfy import answers
from bridge.http.wires.lmstfy.answers import Refusal
from bridge.http.wires.lmstfy.job_ids import new_request_id
from bridge.http.wires.lmstfy.request import WireRequest
from bridge.http.wires.lmstfy.wire import Wire
from bridge.model import log_scope
from bridge.model.errors import Unavailable

log = structlog.get_logger(__name__)

_UNMATCHED: Final = "(no such path)"  # an unknown path may contain a token too


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a path pattern. `method` "*" is any method. In `pattern`, `:name` is one segment and `*name` is the
    rest of the path. All segments but the last may be empty: `/api//q` has an empty namespace."""

    method: str
    pattern: str

    def match(self, method: str, path: str) -> Mapping[str, str] | None:
        """Returns the path's values by the pattern's names; None if the method or the path does not fit."""
        if self.method not in ("*", method):
            return None
        params: dict[str, str] = {}
        pattern, segments = self.pattern.split("/"), path.split("/")
        for at, expected in enumerate(pattern):
            if expected.startswith("*"):
                return {**params, expected[1:]: "/".join(segments[at:])} if len(segments) > at else None
            if at >= len(segments):
                return None
            if expected.startswith(":") and (segments[at] or at < len(segments) - 1):
                params[expected[1:]] = segments[at]
            elif expected != segments[at]:
                return None
        return params if len(segments) == len(pattern) else None


AnyRoute = TypeVar("AnyRoute", bound=Route)


@dataclass(frozen=True, slots=True)
class Answered:
    """A response, with two labels of the metrics that count it. `pool`: "" if the request was refused before its pool
    was known. `namespace`: "" if no token was verified."""

    response: Response
    pool: str = ""
    namespace: str = ""


class Router(ABC, Generic[AnyRoute]):
    """An ASGI application for HTTP requests: finds the route of each, runs it, and counts and logs the request."""

    def __init__(self, wire: Wire, routes: Sequence[AnyRoute]) -> None:
        self._wire = wire
        self._routes = routes

    @abstractmethod
    async def run(self, route: AnyRoute, request: WireRequest) -> Answered:
        """Runs the checks and the handler of a route. Errors of both become answers.

        Raises:
            ClientDisconnect: the client closed the connection.
        """

    @abstractmethod
    def not_found(self) -> Response: ...

    @abstractmethod
    def logged_path(self, request: WireRequest) -> str: ...

    def count(self, request: WireRequest, answered: Answered, took_s: float) -> None:
        """Counts an answered request in the metrics; does nothing unless a subclass overrides it. `took_s`: seconds
        from the request's head to its answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began_s = monotonic()
        route, params = self._match(scope["method"], scope["path"])
        pattern = "" if route is None else route.pattern
        request = WireRequest(self._wire, Request(scope, receive), new_request_id(), pattern, params)
        log_scope.enter(request.request_id)
        scope[LOGGED_PATH] = self.logged_path(request) or _UNMATCHED
        try:
            answered = Answered(self._unmatched(request)) if route is None else await self.run(route, request)
            await request.drain()
        except ClientDisconnect:
            return
        answered.response.headers["X-Request-ID"] = request.request_id
        took_s = monotonic() - began_s
        self.count(request, answered, took_s)
        if self._wire.logs_access:
            self._log_access(request, answered, took_s)
        await answered.response(scope, receive, send)

    def _match(self, method: str, path: str) -> tuple[AnyRoute | None, Mapping[str, str]]:
        for route in self._routes:
            if (params := route.match(method, path)) is not None:
                return route, params
        return None, {}

    def _unmatched(self, request: WireRequest) -> Response:
        scope = request.http.scope
        method, path = scope["method"], scope["path"]
        other = path[:-1] if path.endswith("/") else f"{path}/"
        if not self._redirects(method, path, other):
            return self.not_found()
        query = scope["query_string"].decode("latin-1")
        return answers.moved(method, quote(other, safe="/,:") + (f"?{query}" if query else ""))

    def _redirects(self, method: str, path: str, other: str) -> bool:
        """Returns whether Gin redirects an unknown path to `other`, the path with one slash less or more at its end.

        Gin decides by the node of its tree that the slash leads to, so it may redirect to a path that does not exist.
        """
        continued = [] if path == "/" or not path.endswith("/") else self._continuations(method, other)
        if not continued:
            return self._match(method, other)[0] is not None
        if continued[0][1][0] in ":*":
            return continued[0][0].startswith(":")
        return len({following[0] for _, following in continued}) == 1

    def _continuations(self, method: str, path: str) -> list[tuple[str, str]]:
        """Finds the patterns that begin with the path and have more segments. Returns two segments of each pattern: the
        one that matches the path's last segment, and the next one."""
        segments = path.split("/")
        return [
            (pattern[len(segments) - 1], pattern[len(segments)])
            for route in self._routes
            if len(pattern := route.pattern.split("/")) > len(segments)
            and replace(route, pattern="/".join(pattern[: len(segments)])).match(method, path) is not None
        ]

    def _log_access(self, request: WireRequest, answered: Answered, took_s: float) -> None:
        log.info(
            "lmstfy.request",
            pool=answered.pool,
            method=request.http.method,
            path=self.logged_path(request),
            status=answered.response.status_code,
            took_ms=round(took_s * 1_000, 3),
        )


def failure(error: Exception, request: WireRequest) -> Response:
    """Returns the answer to a request whose stage or handler raised `error`.

    Raises:
        ClientDisconnect: `error` is this exception: the client has gone, so nobody reads an answer.
    """
    if isinstance(error, ClientDisconnect):
        raise error
    if isinstance(error, Refusal):
        return error.answer
    if not isinstance(error, Unavailable):  # the loops log that a server is away, once and not for every request
        log.exception("lmstfy.failed", route=request.route)
    return answers.answer(500, error="internal error")
