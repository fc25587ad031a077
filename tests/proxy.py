"""Passes TCP connections on to a server on loopback, and disturbs them when a test says so.

It can cut connections, slow them down, hold them up, lose the answer to one request, and keep what clients sent.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

from bridge.local.ports import free_ports

_CHUNK_BYTES = 65_536


class Proxy:
    """A proxy in front of the server at `url`. `latency_s` is added to every chunk in either direction,
    `request_latency_s` to every chunk for the server. With `overhears` all that clients sent is in `overheard`."""

    def __init__(self, url: str, *, overhears: bool = False) -> None:
        self._target = urlsplit(url)
        self._overhears = overhears
        self.overheard = bytearray()
        self._port = free_ports(1)[0]
        self._listening: socket.socket | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self._takes_connections = True
        self._requests_pass, self._answers_pass = asyncio.Event(), asyncio.Event()
        self.speak()
        self._trigger: bytes | None = None
        self.latency_s = self.request_latency_s = 0.0
        self.lost = asyncio.Event()  # the proxy threw an answer away, and cut its connection

    @property
    def url(self) -> str:
        """The server's address, by way of the proxy."""
        user, at, _ = self._target.netloc.rpartition("@")
        return urlunsplit(self._target._replace(netloc=f"{user}{at}127.0.0.1:{self._port}"))

    @property
    def port(self) -> int:
        """The port for clients."""
        return self._port

    @property
    def used(self) -> bool:
        """Whether a connection is open."""
        return bool(self._passing)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listens."""
        # `asyncio.Server` leaves a connection open that it accepts as it is closed (python/cpython#109564).
        self._listening = socket.create_server(("127.0.0.1", self._port))
        self._listening.setblocking(False)
        asyncio.get_running_loop().add_reader(self._listening, self._accept, self._listening)

    async def stop(self) -> None:
        """Cuts every connection, and returns when none is left."""
        self.cut()
        self.speak()
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()
            self._listening = None
        while self._passing:
            await asyncio.wait(self._passing)

    def lead_to(self, url: str) -> None:
        """Leads new connections to another server. The others stay."""
        self._target = urlsplit(url)

    def cut(self) -> None:
        """Closes every connection, and accepts none until `mend`."""
        self._takes_connections = False
        for writer in self._open:
            writer.transport.abort()

    def mend(self) -> None:
        """Accepts connections again."""
        self._takes_connections = True

    def fall_silent(self, *, requests: bool = True, answers: bool = True) -> None:
        """Keeps every connection and passes nothing on, as a server that hangs. Or only in one direction."""
        if requests:
            self._requests_pass.clear()
        if answers:
            self._answers_pass.clear()

    def speak(self) -> None:
        """Passes on what it held, also of connections that the client has closed meanwhile."""
        self._requests_pass.set()
        self._answers_pass.set()

    def lose_the_answer_to(self, request: bytes) -> None:
        """Cuts the first connection that sends these bytes when the server has answered them, and drops the answer.

        The server has done then what the client asked for.
        """
        self._trigger = request
        self.lost.clear()

    def _accept(self, listening: socket.socket) -> None:
        with suppress(BlockingIOError):  # the client has gone
            self._keep(self._connected(listening.accept()[0]))

    async def _connected(self, client: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=client)
        self._open.add(writer)
        try:
            if not self._takes_connections:
                raise ConnectionRefusedError
            server_reader, server = await asyncio.open_connection(self._target.hostname, self._target.port)
        except OSError:
            self._open.discard(writer)
            writer.transport.abort()
            return
        self._open.add(server)
        asked = asyncio.Event()
        # A cut meanwhile has closed the client's writer. Then the first of the two tasks ends the other.
        self._start(self._requests(reader, server, asked), writer, server)
        self._start(self._answers(server_reader, writer, asked), writer, server)

    def _start(self, passing: Coroutine[Any, Any, None], *writers: asyncio.StreamWriter) -> None:
        async def until_either_ends() -> None:
            with suppress(OSError, RuntimeError):  # uvloop raises the latter for a writer that a cut has closed
                await passing
            for writer in writers:
                writer.transport.abort()
                self._open.discard(writer)

        self._keep(until_either_ends())

    def _keep(self, passing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(passing)
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    async def _requests(self, reader: asyncio.StreamReader, to: asyncio.StreamWriter, asked: asyncio.Event) -> None:
        while chunk := await reader.read(_CHUNK_BYTES):
            if self._overhears:
                self.overheard += chunk
            if self._trigger is not None and self._trigger in chunk:
                self._trigger = None
                asked.set()
            if self.request_latency_s:
                await asyncio.sleep(self.request_latency_s)
            await self._pass(chunk, to, self._requests_pass)

    async def _answers(self, reader: asyncio.StreamReader, to: asyncio.StreamWriter, asked: asyncio.Event) -> None:
        while chunk := await reader.read(_CHUNK_BYTES):
            if asked.is_set():
                self.lost.set()
                return
            await self._pass(chunk, to, self._answers_pass)

    async def _pass(self, chunk: bytes, to: asyncio.StreamWriter, passes: asyncio.Event) -> None:
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        await passes.wait()
        to.write(chunk)
        await to.drain()
