"""Carries one HTTP request to a bridge's application, and its response back, without sockets."""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import Any, Final

import orjson
from starlette.types import ASGIApp, Message, Scope

_SERVER: Final = ("127.0.0.1", 8080)
_CLIENT: Final = ("127.0.0.1", 50_000)

Answer = tuple[int, bytes]
"""The status and the body of a response."""


class Exchange:
    """One request. `answered`: the response, or None if the connection was lost before it came."""

    def __init__(self, number: int, method: str, path: str, json: Any, *, world: Context) -> None:
        self.number = number
        self.method, self.path = method, path
        self._body = b"" if json is None else orjson.dumps(json)
        self._world = world
        self._loop = asyncio.get_running_loop()
        self.answered: asyncio.Future[Answer | None] = self._loop.create_future()
        self._status = 0
        self._sent: list[bytes] = []
        self._was_read = False
        self._gone = asyncio.Event()
        self.error: BaseException | None = None

    async def run(self, app: ASGIApp) -> None:
        """Lets the application answer. `error` is what it raised."""
        try:
            await app(self._scope(), self._receive, self._send)
        except Exception as error:  # noqa: BLE001 - uvicorn catches all too, and logs it
            self.error = error
            self._answer((500, b"{}"))

    def disconnect(self) -> None:
        """Tells the application that the client has gone."""
        self._gone.set()

    def lose(self) -> None:
        """The client gets no response."""
        if not self.answered.done():
            self.answered.set_result(None)

    def _scope(self) -> Scope:
        path, _, query = self.path.partition("?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": self.method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [
                (b"host", b"127.0.0.1:8080"),
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(self._body)),
            ],
            "client": _CLIENT,
            "server": _SERVER,
        }

    async def _receive(self) -> Message:
        if not self._was_read:
            self._was_read = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            return
        self._sent.append(message.get("body", b""))
        if not message.get("more_body", False):
            self._answer((self._status, b"".join(self._sent)))
            self._gone.set()

    def _answer(self, answer: Answer) -> None:
        self._loop.call_soon(self._give, answer, context=self._world)

    def _give(self, answer: Answer) -> None:
        if not self.answered.done():
            self.answered.set_result(answer)
