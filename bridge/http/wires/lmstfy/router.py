"""Routes requests as Gin does, and answers what goes wrong as it would.

A path fits a pattern or is unknown: a wrong method is an unknown path, and a path with a slash too many or too few is
sent to the one that there is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import quote

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bridge.http.wires.lmstfy import answers
from bridge.http.wires.lmstfy.answers import Refusal
from bridge.http.wires.lmstfy.job_ids import new_request_id
from bridge.http.wires.lmstfy.request import LmstfyRequest
from bridge.model.errors import Unavailable

if TYPE_CHECKING:
    from bridge.http.wires.lmstfy.wire import Wire

log = structlog.get_logger(__name__)

Handler = Callable[[LmstfyRequest], Awaitable[Response]]
Stage = Callable[[LmstfyRequest], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Route:
    """`method` "*": any. Of a pattern's segments `:name` is a parameter and `*name` all that follows. The stages refuse
    a request, by turns, or let it through."""

    method: str
    pattern: str
    handler: Handler
    stages: Sequence[Stage] = ()

    def fits(self, method: str, path: str) -> Mapping[str, str] | None:
        if self.method not in ("*", method):
            return None
        params: dict[str, str] = {}
        wanted, given = self.pattern.split("/"), path.split("/")
        for at, segment in enumerate(wanted):
            if segment.startswith("*"):
                return {**params, segment[1:]: "/".join(given[at:])} if len(given) > at else None
            if at >= len(given):
                return None
            if segment.startswith(":") and given[at]:
                params[segment[1:]] = given[at]
            elif segment != given[at]:
                return None
        return params if len(given) == len(wanted) else None


class Router:
    """An ASGI application for HTTP alone. `missing`: answers for a path that is unknown. `counted`: requests are."""

    def __init__(self, wire: Wire, routes: Sequence[Route], *, missing: Callable[[], Response], counted: bool) -> None:
        self._wire = wire
        self._routes = routes
        self._missing = missing
        self._counted = counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began_s = monotonic()
        exchange = LmstfyRequest(self._wire, Request(scope, receive), new_request_id())
        try:
            response = await self._answer(exchange)
            await exchange.drain()
        except ClientDisconnect:
            return  # there is nobody to answer
        response.headers["X-Request-ID"] = exchange.request_id
        self._wire.told(exchange, response.status_code, monotonic() - began_s, counted=self._counted)
        await response(scope, receive, send)

    async def _answer(self, exchange: LmstfyRequest) -> Response:
        method, path = exchange.request.method, exchange.request.scope["path"]
        for route in self._routes:
            if (params := route.fits(method, path)) is not None:
                exchange.route, exchange.params = route.pattern, params
                return await self._run(route, exchange)
        other = path[:-1] if path.endswith("/") else f"{path}/"
        if any(route.fits(method, other) is not None for route in self._routes):
            query = exchange.request.scope["query_string"].decode("latin-1")
            return answers.moved(method, quote(other, safe="/,:") + (f"?{query}" if query else ""))
        return self._missing()

    async def _run(self, route: Route, exchange: LmstfyRequest) -> Response:
        try:
            for stage in route.stages:
                await stage(exchange)
            return await route.handler(exchange)
        except Refusal as refusal:
            return refusal.answer
        except Unavailable:
            pass  # the loops say so in the log, and not for every request
        except ClientDisconnect:
            raise
        except Exception:
            log.exception("lmstfy.failed", route=route.pattern, request_id=exchange.request_id)
        return answers.answer(500, error="internal error")
