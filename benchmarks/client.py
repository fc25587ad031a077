"""Sends HTTP/1.1 requests with so little overhead that the benchmark measures the server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import orjson

from benchmarks.errors import BenchError

CREATED = 201
OK = 200
UNAVAILABLE = 503
_TRIES = 10
_PAUSE_S = 0.05  # after a 503
_MOST = 512  # connections; further sends of an open loop wait here, and their lateness still counts from the plan
Message = TypeVar("Message")
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_END_OF_HEAD = b"\r\n\r\n"


class Answer(NamedTuple):
    status: int
    body: bytes


class Connection(asyncio.Protocol):
    """One keep-alive connection. It sends one request at a time."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._received = bytearray()
        self._whole = 0  # length of the answer in bytes; 0 until its head has come
        self._body_at = 0
        self._answer: asyncio.Future[Answer] | None = None
        self._transport: asyncio.Transport
        self.closed = False  # a server closes connections that are idle for some seconds

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

    async def request(self, method: str, path: str, body: bytes) -> Answer:
        """Sends a request and returns its answer.

        Raises:
            OSError: the connection is lost.
        """
        self._answer = asyncio.get_running_loop().create_future()
        head = f"{method} {path} HTTP/1.1\r\nhost: {self._host}\r\ncontent-type: application/json\r\n"
        self._transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        return await self._answer

    def close(self) -> None:
        self._transport.close()


class Api:
    """The bridge's HTTP API, over one connection for each request in flight, up to `_MOST`."""

    def __init__(self, url: str) -> None:
        self._turns = asyncio.Semaphore(_MOST)
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._idle: list[Connection] = []
        self._all: list[Connection] = []

    async def connect(self, count: int) -> None:
        """Opens connections before their first request."""
        self._idle += [await self._open() for _ in range(count)]

    async def request(self, method: str, path: str, body: bytes = b"") -> Answer:
        async with self._turns:
            while self._idle:
                connection = self._idle.pop()
                if not connection.closed:
                    break
            else:
                connection = await self._open()
            answer = await connection.request(method, path, body)
            self._idle.append(connection)
            return answer

    async def post(self, path: str, body: bytes) -> Answer:
        return await self.request("POST", path, body)

    async def put_policy(self, topic: str, **policy: object) -> None:
        """Creates the topic, or changes its policy.

        Raises:
            BenchError: the bridge refused it.
        """
        answer = await self.request("PUT", f"/v1/topics/{topic}", orjson.dumps(policy))
        if answer.status != OK:
            raise BenchError(f"the policy of {topic} was answered {answer.status}: {answer.body[:300]!r}")

    async def ask(self, path: str, content: object) -> Any:
        """Returns the JSON of a 200. A 503 promises nothing, so the request is retried.

        Raises:
            BenchError: the answer was another one, or still 503 after `_TRIES`.
        """
        for _ in range(_TRIES):
            answer = await self.post(path, orjson.dumps(content))
            if answer.status != UNAVAILABLE:
                break
            await asyncio.sleep(_PAUSE_S)
        if answer.status != OK:
            raise BenchError(f"POST {path} was answered {answer.status}: {answer.body[:300].decode(errors='replace')}")
        return orjson.loads(answer.body)

    async def send_batch(self, topic: str, messages: Sequence[object]) -> None:
        """Sends up to 1000 messages in one request.

        Raises:
            BenchError: a message was not accepted.
        """
        if refused := await self.offer_batch(topic, messages):
            raise BenchError(f"{len(refused)} of {len(messages)} messages to {topic} were not accepted")

    async def offer_batch(self, topic: str, messages: Sequence[Message]) -> list[Message]:
        """Sends up to 1000 messages in one request, and returns those that were not accepted.

        Raises:
            BenchError: the whole request was refused, but not with 503.
        """
        path = f"/v1/topics/{topic}/messages/batch"
        answer = await self.post(path, orjson.dumps({"messages": messages}))
        if answer.status == OK and answer.body.count(b'"status":201') == len(messages):
            return []
        if answer.status == UNAVAILABLE:
            await asyncio.sleep(_PAUSE_S)
            return list(messages)
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
