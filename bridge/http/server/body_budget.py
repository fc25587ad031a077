"""Bounds the bytes of bodies that all requests of a process hold together."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridge.http.errors import TooManyBytes

SMALL_BYTES = 64 * 1024
"""The budget does not count bodies with a declared size of at most this many bytes: the server buffers as much anyway.
"""


class BodyBudget:
    """ASGI middleware: limits the bytes of bodies that all requests together hold until they are answered. A read that
    would take their total over `limit_bytes` raises `TooManyBytes`. Bodies with a declared size of at most
    `SMALL_BYTES` do not count."""

    def __init__(self, app: ASGIApp, *, limit_bytes: int) -> None:
        self._app = app
        self._limit_bytes = limit_bytes
        self._held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _is_small(scope):
            await self._app(scope, receive, send)
            return
        own_bytes = 0

        async def receive_counted() -> Message:
            nonlocal own_bytes
            message = await receive()
            size_bytes = len(message.get("body", b""))
            if self._held_bytes + size_bytes > self._limit_bytes:
                raise TooManyBytes(self._limit_bytes)
            own_bytes += size_bytes
            self._held_bytes += size_bytes
            return message

        try:
            await self._app(scope, receive_counted, send)
        finally:
            self._held_bytes -= own_bytes


def _is_small(scope: Scope) -> bool:
    declared = b""
    for name, value in scope["headers"]:
        if name == b"transfer-encoding":
            return False
        if name == b"content-length":
            declared = value
    return not declared or (declared.isdigit() and int(declared) <= SMALL_BYTES)
