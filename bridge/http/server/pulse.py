"""Notices stalls of the event loop, and refuses the requests that waited during the stall.

A process may be frozen, or one callback may keep the loop busy. During a stall clients give up, and repeat their
requests at another bridge. Unread bytes have no time stamp. So after a stall that was longer than a call may last, all
requests that the loop finds count as old. They may be unread in a socket, on a new connection, or read and not begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection
from math import inf
from time import monotonic
from typing import Any, Final

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridge.http.errors import StoodStill
from bridge.http.server.refusals import is_always_answered, refuse
from bridge.metrics.http import REFUSED

log = structlog.get_logger(__name__)

_BEAT_S: Final = 0.25
_ROUNDS: Final = 4
"""After so many rounds the loop has read all that lay unread: it accepts a connection, begins it, and reads from it."""


class Pulse:
    """Checks four times a second whether the event loop has stalled. `limit_s`: after a longer stall, the bridge
    refuses the requests that waited. `fresh_until_s`: a moment in seconds of `monotonic()`. A request that the loop
    reads later may have waited longer than `limit_s`.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._last_s = 0.0
        self._stalls = 0
        self._connections: Collection[Any] = ()
        self.fresh_until_s = inf

    def start(self, connections: Collection[Any]) -> None:
        """Begins the checks. `connections`: the server's collection of open connections, which it keeps up to date."""
        self._connections = connections
        self._last_s = monotonic()
        self._beat()

    def why(self) -> StoodStill:
        return StoodStill(self._limit_s)

    async def refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuses a request with 503: the event loop stalled, and the request may have waited too long. This method is
        an ASGI application."""
        REFUSED.labels("503").inc()
        await refuse(self.why(), scope, receive, send)

    def in_time(self, app: ASGIApp) -> ASGIApp:
        """Returns an ASGI application for the request whose head has just been read. It runs `app`, but refuses the
        request with 503 if the event loop has stalled before the request begins. If the loop stalls while the body
        arrives, `app`'s read of the body raises `StoodStill`."""
        stalls = self._stalls

        def is_late() -> bool:
            return monotonic() > self.fresh_until_s or stalls != self._stalls

        def begin(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
            if is_late() and not is_always_answered(scope["path"]):
                return self.refuse(scope, receive, send)
            more_body = True

            async def receive_in_time() -> Message:
                nonlocal more_body
                message = await receive()
                if more_body and message["type"] == "http.request":
                    if is_late():
                        REFUSED.labels("503").inc()
                        raise self.why()
                    more_body = message.get("more_body", False)
                return message

            return app(scope, receive_in_time, send)

        return begin

    def _beat(self, rounds: int = 0) -> None:
        """Looks for a stall, and plans the next beat. `rounds`: the number of further rounds of the event loop. In
        these rounds, each request that the loop reads counts as old."""
        loop, now_s = asyncio.get_running_loop(), monotonic()
        stood_s, self._last_s = now_s - self._last_s, now_s
        if stood_s > self._limit_s:
            log.warning("http.stood_still", stood_s=round(stood_s, 1))
            rounds = _ROUNDS
            self._stalls += 1
            for connection in list(self._connections):
                connection.stood_still()
        if rounds:
            loop.call_soon(self._beat, rounds - 1)
        else:
            self.fresh_until_s = now_s + self._limit_s
            loop.call_later(_BEAT_S, self._beat)
