"""The busiest calls, past the middlewares and past FastAPI's routing, which cost more than all else that HTTP takes.

They are the same operations with the same answers, documented by their routes. Whatever is out of the ordinary in a
request is left to those: another method, a body whose size was not declared or is too large, a port of another wire.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bridge.http import problems
from bridge.http.guard import Handler
from bridge.http.server import request_id
from bridge.http.server.raw_path import as_written
from bridge.http.v1.call import Call
from bridge.model.errors import BridgeError

_PATH = re.compile(
    r"/v1/(?:topics/(?P<topic>[^/]+)|namespaces/(?P<namespace>[^/]+)/topics/(?P<name>[^/]+))(?P<rest>/.*)"
)
_PATHS = 4_096  # that are remembered
_LONGEST_PATH = 1_024  # bytes; whatever names a topic is shorter
_Found = tuple[Handler, Mapping[str, str]]


class FastPath:
    """ASGI application, in front of `app`.

    `handlers` are by method and by the path behind the topic: `("POST", "/messages")`. `ports`: of other wires.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        handlers: Mapping[tuple[str, str], Handler],
        limit_bytes: int,
        ports: Collection[int],
    ) -> None:
        self._app = app
        self._limit_bytes = limit_bytes
        self._ports = ports

        @lru_cache(maxsize=_PATHS)
        def find(method: str, raw_path: bytes) -> _Found | None:
            found = _PATH.fullmatch(as_written(raw_path)) if raw_path.isascii() else None
            handler = handlers.get((method, found["rest"])) if found is not None else None
            if found is None or handler is None:
                return None
            return handler, {name: value for name, value in found.groupdict().items() if value is not None}

        self._find = find

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw_path = (scope.get("raw_path") or b"") if scope["type"] == "http" else b""
        found = self._find(scope["method"], raw_path) if 0 < len(raw_path) <= _LONGEST_PATH else None
        if found is None or (scope.get("server") or (None, None))[1] in self._ports:
            await self._app(scope, receive, send)
            return
        declared = given = b""
        for name, value in scope["headers"]:
            if name == b"content-length":
                declared = value
            elif name == request_id.HEADER:
                given = given or value
        if not declared.isdigit() or int(declared) > self._limit_bytes:
            await self._app(scope, receive, send)
            return
        identity = request_id.give(scope, given)
        handler, scope["path_params"] = found
        try:
            response = await handler(Call(scope, receive))
        except BridgeError as error:
            response = problems.answer(Request(scope), error)
        except ClientDisconnect:
            return  # there is nobody to answer
        except Exception:
            await _answer(send, problems.unforeseen(Request(scope)), identity)
            raise
        await _answer(send, response, identity)


async def _answer(send: Send, response: Response, identity: bytes) -> None:
    headers = [*response.raw_headers, (request_id.HEADER, identity)]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})
