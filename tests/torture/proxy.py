"""A TCP proxy in front of a server, which cuts connections and slows them down."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit, urlunsplit

from bridge.local.ports import free_ports

_CHUNK_BYTES = 65_536


class Proxy:
    """Passes connections on. `latency_s` is added to every chunk in either direction."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._port = free_ports(1)[0]
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self._taking = True
        self.latency_s = 0.0

    @property
    def url(self) -> str:
        """The server's address, by way of the proxy."""
        user, at, _ = self._target.netloc.rpartition("@")
        return urlunsplit(self._target._replace(netloc=f"{user}{at}127.0.0.1:{self._port}"))

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)

    async def stop(self) -> None:
        self.cut()
        if self._server is not None:
            self._server.close()
        while self._passing:
            await asyncio.wait(self._passing)

    def cut(self) -> None:
        """Closes every connection, and takes none until it is mended."""
        self._taking = False
        for writer in self._open:
            writer.transport.abort()

    def mend(self) -> None:
        self._taking = True

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            if not self._taking:
                raise ConnectionRefusedError
            beyond_reader, beyond = await asyncio.open_connection(self._target.hostname, self._target.port)
        except OSError:
            self._open.discard(writer)
            writer.transport.abort()
            return
        self._open.add(beyond)
        # A cut meanwhile has closed the writer, and then the first of the two ends the other.
        self._pass(reader, beyond, writer)
        self._pass(beyond_reader, writer, beyond)

    def _pass(self, reader: asyncio.StreamReader, to: asyncio.StreamWriter, back: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._chunks(reader, to, back))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    async def _chunks(self, reader: asyncio.StreamReader, to: asyncio.StreamWriter, back: asyncio.StreamWriter) -> None:
        with suppress(OSError, RuntimeError):  # the latter is uvloop's for a writer that a cut has closed
            while chunk := await reader.read(_CHUNK_BYTES):
                if self.latency_s:
                    await asyncio.sleep(self.latency_s)
                to.write(chunk)
                await to.drain()
        for writer in (to, back):
            writer.transport.abort()
            self._open.discard(writer)
