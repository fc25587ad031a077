"""A TCP proxy that loses answers and cuts connections at moments of the test's choice."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit, urlunsplit

_CHUNK_BYTES = 65_536


class Proxy:
    """Passes connections on to a server on loopback. While it is cut, it takes none."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._port = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self._trigger: bytes | None = None
        self.lost = asyncio.Event()  # an answer was thrown away, and its connection with it

    @property
    def url(self) -> str:
        """The server's address, by way of the proxy."""
        user, at, _ = self._target.netloc.rpartition("@")
        return urlunsplit(self._target._replace(netloc=f"{user}{at}127.0.0.1:{self._port}"))

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        while self._passing:
            await asyncio.wait(self._passing)

    def lose_the_answer_to(self, request: bytes) -> None:
        """The first connection on which these bytes are sent is cut once the server has answered, and nobody gets the
        answer. Whatever was asked for has been done then."""
        self._trigger = request
        self.lost.clear()

    def cut(self) -> None:
        """Ends all connections and takes no new ones, for good."""
        if self._server is not None:
            self._server.close()
        for writer in self._open:
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection(self._target.hostname, self._target.port)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, up_writer}
        asked = asyncio.Event()
        for passing in (self._requests(reader, up_writer, asked), self._answers(up_reader, writer, asked)):
            task = asyncio.create_task(passing)
            self._passing.add(task)
            task.add_done_callback(self._passing.discard)
            task.add_done_callback(lambda _: writer.transport.abort())
            task.add_done_callback(lambda _: up_writer.transport.abort())

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event) -> None:
        with suppress(OSError):
            while chunk := await reader.read(_CHUNK_BYTES):
                if self._trigger is not None and self._trigger in chunk:
                    self._trigger = None
                    asked.set()
                writer.write(chunk)
                await writer.drain()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event) -> None:
        with suppress(OSError):
            while chunk := await reader.read(_CHUNK_BYTES):
                if asked.is_set():
                    self.lost.set()
                    return
                writer.write(chunk)
                await writer.drain()
