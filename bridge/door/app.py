"""Runs the door as an ASGI application, which answers requests for the door's health and metrics."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final

from bridge.door.door import Door
from bridge.metrics.page import render

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_PLAIN: Final = "text/plain; charset=utf-8"


class DoorApp:
    """The ASGI application of the door, a proxy for AMQP clients. Answers /health/live, /health/ready and /metrics.
    Starts the proxy at the ASGI startup event, and stops it at the shutdown event.

    `drain_s`: how many seconds after the shutdown event the door closes the clients' connections. `grace_s`: how many
    seconds later it cuts the connections that are still open.
    """

    def __init__(self, door: Door, sockets: Sequence[socket.socket], *, drain_s: float, grace_s: float) -> None:
        self._door = door
        self._sockets = sockets
        self._drain_s = drain_s
        self._grace_s = grace_s

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            status, body, kind = await self._answer(scope["method"], scope["path"])
            headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await self._door.start(self._sockets)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._door.stop(drain_s=self._drain_s, grace_s=self._grace_s)
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, method: str, path: str) -> tuple[int, bytes, str]:
        if method not in {"GET", "HEAD"}:
            return 405, b"The door answers GET and HEAD alone.\n", _PLAIN
        if path == "/health/live":
            return 200, b"live\n", _PLAIN
        if path == "/health/ready":
            return (200, b"ready\n", _PLAIN) if self._door.is_ready else (503, b"shutting down\n", _PLAIN)
        if path == "/metrics":
            page, kind = await render("", {})
            return 200, page, kind
        return 404, b"The door answers /health/live, /health/ready and /metrics.\n", _PLAIN
