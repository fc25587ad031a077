"""Every request has an id: the caller's `X-Request-ID` if it is a sane one, else a new one. Every answer bears it."""

from __future__ import annotations

import re
from random import getrandbits

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = b"x-request-id"
_SANE = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")


class RequestId:
    """ASGI middleware; puts the id into the scope, for `of`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == HEADER), b"")
        request_id = give(scope, given)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (HEADER, request_id)]
            await send(message)

        await self._app(scope, receive, send_with_id)


def give(scope: Scope, given: bytes) -> bytes:
    """The request's id from here on: what it was `given`, if that is a sane one."""
    identity = given if given and _SANE.fullmatch(given) else new()
    scope["request_id"] = identity.decode()
    return identity


def new() -> bytes:
    return b"%024x" % getrandbits(96)


def of(scope: Scope) -> str:
    """The id of the request that the scope is of."""
    request_id: str = scope.get("request_id", "")
    return request_id
