"""Gives every request an id: the client's `X-Request-ID` if it is valid, else a new one. Answers have it as header."""

from __future__ import annotations

import re
from random import getrandbits

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridge.model import log_scope

HEADER = b"x-request-id"
# A token, which a client has put here by mistake, is no id: the log has each id.
_VALID = re.compile(rb"(?!.{0,124}dbt_)[A-Za-z0-9._:/+=@-]{1,128}")


class RequestId:
    """ASGI middleware: keeps the request's id in the scope, where `of` reads it, and adds it to the answer."""

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
    """Sets and returns the request's id: `given` if it is valid, else a new one. Log lines of the request have the id.
    `given`: the client's `X-Request-ID`; empty if there is none."""
    identity = given if given and _VALID.fullmatch(given) else new()
    scope["request_id"] = text = identity.decode()
    log_scope.enter(text)
    return identity


def new() -> bytes:
    """Returns a new id: 96 random bits in hex."""
    return b"%024x" % getrandbits(96)


def of(scope: Scope) -> str:
    """Returns the id of the scope's request; empty if the request has none yet."""
    request_id: str = scope.get("request_id", "")
    return request_id
