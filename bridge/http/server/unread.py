"""Bounds the bytes of answers that clients have not read, for all connections of a process together."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from bridge.http.server.refusals import is_always_answered, refuse
from bridge.metrics.http import REFUSED
from bridge.model.unread_bytes import MAKING, Making, UnreadBytes

_PAGES_AT_ONCE: Final = 2
_READY: Final = "/health/ready"  # its answer says whether a send would succeed now


class UnreadAnswers:
    """Counts the bytes of answers that clients have not read, over all connections of the process. A connection starts
    no further request while its client has not read the last answer.

    `limit_bytes`: from this total on, the server answers pages of messages and pulls with 503. A refused pull has taken
    no message. From a quarter above the limit on, the server refuses all requests except `/health/live` and `/metrics`.

    The bodies that a pull takes are added to the total at once. Any other answer is added only after it was written.
    Many pages at once could therefore exceed the limit unseen, so at most two are made at a time.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._bytes = UnreadBytes(limit_bytes)
        self._held: dict[object, int] = {}
        self._pages = asyncio.Semaphore(_PAGES_AT_ONCE)

    def note(self, connection: object, size_bytes: int) -> None:
        """Remembers how many bytes of answers the connection's client has not read: `size_bytes`. It replaces the
        number that was noted before."""
        self._bytes.add(size_bytes - self._held.pop(connection, 0))
        if size_bytes:
            self._held[connection] = size_bytes

    def holds(self, connection: object) -> bool:
        return connection in self._held

    def bounded(self, app: ASGIApp, scope: Scope) -> ASGIApp:
        """Returns an ASGI application for the request: one that runs `app`, or one that refuses the request with 503.

        Two pages of messages are built at a time, and a GET of a further page waits. Unread bytes are the bytes of
        answers that clients have not read. Once these reach the limit, a GET of a page is refused. A pull checks this
        limit itself. Once unread bytes reach one and a quarter times the limit, every other request is refused, pulls
        included. `/health/live` and `/metrics` are never refused.
        """
        path: str = scope["path"]
        if scope["method"] == "GET" and path.endswith(("/messages", "/dead")):
            return _Page(self, app)
        refused = self._bytes.is_over and (path == _READY or not is_always_answered(path))
        return self._refuse if refused else self._made_by(app)

    def page_now(self, app: ASGIApp) -> ASGIApp:
        """Returns an ASGI application that answers with a page of messages now: `app`, or one that refuses the request
        with 503 because the limit of unread bytes is reached."""
        return self._refuse if self._bytes.is_full else self._made_by(app)

    @property
    def pages(self) -> asyncio.Semaphore:
        return self._pages

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        REFUSED.labels("503").inc()
        await refuse(self._bytes.refusal(), scope, receive, send)

    def _made_by(self, app: ASGIApp) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            making = Making(self._bytes)
            MAKING.set(making)
            try:
                await app(scope, receive, send)
            finally:
                making.end()

        return answer


class _Page:
    """An ASGI application that answers with a page of messages, once fewer than `_PAGES_AT_ONCE` calls make a page."""

    def __init__(self, unread: UnreadAnswers, app: ASGIApp) -> None:
        self._unread = unread
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._unread.pages:
            await self._unread.page_now(self._app)(scope, receive, send)
