"""Answers the busiest operations without the middleware and without FastAPI's routing.

Middleware and routing cost more CPU than all other HTTP work of such a request. The fast path calls the same handlers
as FastAPI's routes, which document the operations. FastAPI gets every request that is out of the ordinary: another
method, a large body or one of unknown size, or a port that belongs to a wire.
"""

from __future__ import annotations

import re
from asyncio import CancelledError
from collections.abc import Collection, Mapping
from functools import lru_cache
from time import monotonic
from typing import Generic, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from bridge.http import problems, request_id
from bridge.http.guard import Handler
from bridge.http.server.body_budget import SMALL_BYTES
from bridge.http.server.counted import counted, respond, was_cut
from bridge.http.server.raw_path import as_written
from bridge.http.v1.operation.call import ApiCall
from bridge.metrics.http import Requests, requests
from bridge.model.errors import Stopping

_PATH = re.compile(
    r"/v1/(?:topics/(?P<topic>[^/]+)|namespaces/(?P<namespace>[^/]+)/topics/(?P<name>[^/]+))(?P<rest>/.*)"
)
_CACHED_PATHS = 4_096
_LONGEST_PATH = 1_024  # bytes; a path with a valid topic is shorter

App = TypeVar("App", bound=ASGIApp)
_Route = tuple[Handler, Mapping[str, str], Requests]


class FastPath(Generic[App]):
    """The ASGI application that uvicorn calls.

    Args:
        app: FastAPI's application, which answers the requests that the fast path does not.
        handlers: the operation's name and its handler, by method and by the path behind the topic, such as
            `("POST", "/messages")`.
        other_ports: the ports that belong to a wire. `app` answers all requests to them.
    """

    def __init__(
        self,
        app: App,
        *,
        handlers: Mapping[tuple[str, str], tuple[str, Handler]],
        other_ports: Collection[int],
    ) -> None:
        self.app = app
        self._other_ports = other_ports

        @lru_cache(maxsize=_CACHED_PATHS)
        def route(method: str, raw_path: bytes) -> _Route | None:
            match = _PATH.fullmatch(as_written(raw_path)) if raw_path.isascii() else None
            found = handlers.get((method, match["rest"])) if match is not None else None
            if match is None or found is None:
                return None
            operation, handler = found
            params = {name: value for name, value in match.groupdict().items() if value is not None}
            return handler, params, requests(operation)

        self._route = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw_path = (scope.get("raw_path") or b"") if scope["type"] == "http" else b""
        route = self._route(scope["method"], raw_path) if 0 < len(raw_path) <= _LONGEST_PATH else None
        if route is None or (scope.get("server") or (None, None))[1] in self._other_ports:
            await counted(self.app, scope, receive, send)
            return
        content_length = given_id = b""
        for name, value in scope["headers"]:
            if name == b"content-length":
                content_length = value
            elif name == request_id.HEADER:
                given_id = given_id or value
        if not content_length.isdigit() or int(content_length) > SMALL_BYTES:
            await counted(self.app, scope, receive, send)
            return
        began_s = monotonic()
        identity = request_id.give(scope, given_id)
        handler, scope["path_params"], of_operation = route
        try:
            response = await handler(ApiCall(scope, receive))
        except ClientDisconnect:
            return  # nobody reads an answer
        except CancelledError:
            if not was_cut():
                # Nobody has cancelled this call. Something that it waits for was cancelled unexpectedly.
                await respond(send, problems.unforeseen(Request(scope)), identity)
                of_operation.answered(500, monotonic() - began_s)
                raise
            response = problems.answer(Request(scope), Stopping())
        except Exception:
            await respond(send, problems.unforeseen(Request(scope)), identity)
            of_operation.answered(500, monotonic() - began_s)
            raise
        await respond(send, response, identity)
        of_operation.answered(response.status_code, monotonic() - began_s)
