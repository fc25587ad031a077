"""Refuses a too large request before reading it whole: by its Content-Length, or once the body passes the limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridge.http.errors import TooLarge
from bridge.http.problems import answer
from bridge.http.server.protocol import LINGER_S
from bridge.model.errors import Unavailable


class BodyLimit:
    """ASGI middleware: refuses a request with too large a body (413), and closes its connection. `limit_of`: returns
    the most bytes of a request's body, by the request's path."""

    def __init__(self, app: ASGIApp, *, limit_of: Callable[[str], int]) -> None:
        self._app = app
        self._limit_of = limit_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit_bytes = self._limit_of(scope["path"])
        content_length = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
        if not content_length.isdigit():
            await self._app(scope, *_counted(receive, send, limit_bytes))
        elif int(content_length) <= limit_bytes:
            await self._app(scope, receive, send)  # the server passes on no more bytes than declared
        else:
            refusal = answer(Request(scope), _refusal(int(content_length), limit_bytes))
            await refusal(scope, receive, _last(receive, send))


def _counted(receive: Receive, send: Send, limit_bytes: int) -> tuple[Receive, Send]:
    read_bytes = 0
    send_last = _last(receive, send)

    async def receive_counted() -> Message:
        nonlocal read_bytes
        message = await receive()
        read_bytes += len(message.get("body", b""))
        if read_bytes > limit_bytes:
            raise _refusal(read_bytes, limit_bytes)
        return message

    async def send_counted(message: Message) -> None:
        await (send_last if read_bytes > limit_bytes else send)(message)

    return receive_counted, send_counted


def _refusal(size_bytes: int, limit_bytes: int) -> TooLarge:
    return TooLarge(field="request", size_bytes=size_bytes, limit_bytes=limit_bytes)


def _last(receive: Receive, send: Send) -> Send:
    """Returns a `send` for the connection's last answer. After that answer, this `send` reads and drops the rest of the
    request, for `LINGER_S` seconds at most."""

    async def send_last(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)
        elif message.get("more_body"):
            await send(message)
        else:
            await send({**message, "more_body": True})
            with suppress(TimeoutError, Unavailable):  # the budget also counts the bytes that are dropped here
                async with asyncio.timeout(LINGER_S):
                    while (await receive()).get("more_body"):
                        pass
            await send({"type": "http.response.body", "body": b""})

    return send_last
