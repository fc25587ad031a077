"""The busiest calls, past FastAPI's routing: half of what a small send costs in HTTP is finding its route.

They are the same operations with the same answers, documented by their routes, which answer whatever is not matched
here (other methods, for one).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from bridge.errors import BridgeError
from bridge.http import problems
from bridge.http.guard import Handler

_PATH = re.compile(
    r"/v1/(?:topics/(?P<topic>[^/]+)|namespaces/(?P<namespace>[^/]+)/topics/(?P<name>[^/]+))(?P<rest>/.*)"
)


class Shortcut:
    """ASGI middleware. `handlers` are by method and by the path behind the topic: `("POST", "/messages")`."""

    def __init__(self, app: ASGIApp, *, handlers: Mapping[tuple[str, str], Handler]) -> None:
        self._app = app
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" else None
        handler = self._handlers.get((scope["method"], found["rest"])) if found is not None else None
        if found is None or handler is None:
            await self._app(scope, receive, send)
            return
        scope["path_params"] = {name: value for name, value in found.groupdict().items() if value is not None}
        request = Request(scope, receive)
        try:
            response = await handler(request)
        except BridgeError as error:
            response = problems.answer(request, error)
        except ClientDisconnect:
            return  # there is nobody to answer
        await response(scope, receive, send)
