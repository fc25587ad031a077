"""Runs a receiver of callbacks: a small HTTP/1.1 server on loopback, whose answers a test sets."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Received:
    """One call. `at_ms`: when it was read completely, in Unix ms."""

    target: str
    headers: Mapping[str, str]
    body: bytes
    at_ms: float
    connection: int


Reply = Callable[[Received], Awaitable[bytes]]


def answer(status: int = 200, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Some", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass(slots=True)
class Receiver:
    """Gives the answers in `then`, each once, and after them the answer `otherwise`. If `reply` is set, it replaces
    both."""

    port: int = 0
    then: list[bytes] = field(default_factory=list)
    otherwise: bytes = answer()
    reply: Reply | None = None
    calls: asyncio.Queue[Received] = field(default_factory=asyncio.Queue)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def some(self, count: int) -> list[Received]:
        """Returns the next `count` calls."""
        return [await self.calls.get() for _ in range(count)]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = self.connections
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = dict(line.split(": ", 1) for line in head[1:] if line)
                headers = {name.lower(): value for name, value in headers.items()}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                received = Received(head[0].split(" ")[1], headers, body, time.time() * 1_000, connection)
                self.calls.put_nowait(received)
                if self.reply is not None:
                    written = await self.reply(received)
                else:
                    written = self.then.pop(0) if self.then else self.otherwise
                writer.write(written)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def receiving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            await receiver.serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            serving.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in list(serving):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
