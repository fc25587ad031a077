"""An HTTP/1.1 client that costs so little that the server is what is measured, and the two loops of requests.

An open loop sends by a schedule, whatever the answers, so a slow server can't slow its clients and hide how late it is.
A closed loop sends the next request when the last one was answered, so it finds out how much a server can do.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from time import time
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import orjson

from bridge.bench.errors import BenchError

CREATED = 201
OK = 200
UNAVAILABLE = 503
_TRIES = 10
Message = TypeVar("Message")
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_END_OF_HEAD = b"\r\n\r\n"


class Answer(NamedTuple):
    status: int
    body: bytes


class Connection(asyncio.Protocol):
    """One keep-alive connection: one request at a time."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._received = bytearray()
        self._whole = 0  # bytes of the answer under way, 0 until its head is here
        self._body_at = 0
        self._answer: asyncio.Future[Answer] | None = None
        self._transport: asyncio.Transport
        self.closed = False  # a server closes what is idle for some seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._whole:
            end = self._received.find(_END_OF_HEAD)
            length = _LENGTH.search(self._received, 0, end) if end >= 0 else None
            if length is None:
                return
            self._body_at = end + len(_END_OF_HEAD)
            self._whole = self._body_at + int(length[1])
        if len(self._received) >= self._whole and self._answer is not None:
            answer = Answer(int(self._received[9:12]), bytes(self._received[self._body_at : self._whole]))
            del self._received[: self._whole]
            self._whole = 0
            self._answer.set_result(answer)

    async def post(self, path: str, body: bytes) -> Answer:
        """
        Raises:
            OSError: the connection is gone.
        """
        self._answer = asyncio.get_running_loop().create_future()
        head = f"POST {path} HTTP/1.1\r\nhost: {self._host}\r\ncontent-type: application/json\r\n"
        self._transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        return await self._answer

    def close(self) -> None:
        self._transport.close()


class Api:
    """The bridge's HTTP API over as many connections as there are requests at once."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._idle: list[Connection] = []
        self._all: list[Connection] = []

    async def connect(self, count: int) -> None:
        """Opens connections ahead of their first request."""
        self._idle += [await self._open() for _ in range(count)]

    async def post(self, path: str, body: bytes) -> Answer:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                break
        else:
            connection = await self._open()
        answer = await connection.post(path, body)
        self._idle.append(connection)
        return answer

    async def ask(self, path: str, content: object) -> Any:
        """The content of a 200. A 503 promises nothing, so it is asked again.

        Raises:
            BenchError: it was answered otherwise, or time and again with 503.
        """
        for _ in range(_TRIES):
            answer = await self.post(path, orjson.dumps(content))
            if answer.status != UNAVAILABLE:
                break
        if answer.status != OK:
            raise BenchError(f"POST {path} was answered {answer.status}: {answer.body[:300].decode(errors='replace')}")
        return orjson.loads(answer.body)

    async def send_batch(self, topic: str, messages: Sequence[object]) -> None:
        """Sends up to 1000 messages in one request.

        Raises:
            BenchError: one of them was not accepted.
        """
        if refused := await self.offer_batch(topic, messages):
            raise BenchError(f"{len(refused)} of {len(messages)} messages to {topic} were not accepted")

    async def offer_batch(self, topic: str, messages: Sequence[Message]) -> list[Message]:
        """The same; returns those that were not accepted.

        Raises:
            BenchError: the request was refused as a whole.
        """
        path = f"/v1/topics/{topic}/messages/batch"
        answer = await self.post(path, orjson.dumps({"messages": messages}))
        if answer.status == OK and answer.body.count(b'"status":201') == len(messages):
            return []
        if answer.status != OK:
            raise BenchError(f"a batch was answered {answer.status}: {answer.body[:300].decode(errors='replace')}")
        results = orjson.loads(answer.body)["results"]
        return [
            message for message, result in zip(messages, results, strict=True) if result["status"] not in (OK, CREATED)
        ]

    def close(self) -> None:
        for connection in self._all:
            connection.close()

    async def _open(self) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: Connection(f"{self._host}:{self._port}"), self._host, self._port
        )
        self._all.append(connection)
        return connection


@asynccontextmanager
async def opened(url: str, *, connections: int = 1) -> AsyncIterator[Api]:
    api = Api(url)
    try:
        await api.connect(connections)
        yield api
    finally:
        api.close()


@asynccontextmanager
async def together() -> AsyncIterator[asyncio.TaskGroup]:
    """Tasks of which all are cancelled when one fails; its error is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def open_loop(count: int, rate_per_s: float, send: Callable[[int], Awaitable[None]]) -> list[float]:
    """Starts `send(0)`, `send(1)`, … at even distances, and returns when all have ended.

    Returns: the moments they were to be started at, in Unix ms.
    """
    loop = asyncio.get_running_loop()
    start_s = loop.time() + 0.05
    unix_ms = (time() - loop.time()) * 1_000
    moments_s = [start_s + number / rate_per_s for number in range(count)]
    async with together() as group:
        for number, moment_s in enumerate(moments_s):
            if (left_s := moment_s - loop.time()) > 0:
                await asyncio.sleep(left_s)
            group.create_task(_awaited(send, number))
    return [unix_ms + moment_s * 1_000 for moment_s in moments_s]


async def closed_loop(clients: int, seconds: float, request: Callable[[], Awaitable[int]]) -> float:
    """Lets `clients` send one request after the other for so long.

    Returns: the sum of what `request` returned, by second.
    """
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    done = 0

    async def client() -> None:
        nonlocal done
        while loop.time() - start_s < seconds:
            # In two steps: `done += await …` would read `done` before it waits, and lose what others add meanwhile.
            finished = await request()
            done += finished

    async with together() as group:
        for _ in range(clients):
            group.create_task(client())
    return done / (loop.time() - start_s)


async def _awaited(send: Callable[[int], Awaitable[None]], number: int) -> None:
    await send(number)
