"""Tests over a real connection: a client that disconnects, a request that is too large, start and stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI

from bridge.http.server.fast_path import FastPath

_LIMIT = 3 * 1_000 + 256 * 1024


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.up.set()


@asynccontextmanager
async def _served(app: FastPath[FastAPI]) -> AsyncIterator[int]:
    """Serves the application on a free port of this machine."""
    server = _Server(uvicorn.Config(app, port=0, log_config=None, http="httptools", ws="none"))
    serving = asyncio.create_task(server.serve())
    await asyncio.wait_for(server.up.wait(), 10)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await serving


@pytest.fixture
async def port(app: FastPath[FastAPI]) -> AsyncIterator[int]:
    async with _served(app) as port:
        yield port


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[16:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length: "))
    return head + await reader.readexactly(length)


async def test_the_service_starts_and_stops_with_the_app(service: Any, app: FastPath[FastAPI]) -> None:
    async with _served(app):
        assert service.started == ["start"]
    assert service.started == ["start", "stop"]


@pytest.mark.parametrize("path", ["/v1/topics/orders/pull", "/v1/pull"])
async def test_a_client_that_disconnects_ends_its_long_poll(service: Any, port: int, path: str) -> None:
    waiting, cancelled = asyncio.Event(), asyncio.Event()

    async def pull(topics: Any, **named: Any) -> Any:
        waiting.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    service.answers["pulling.pull"] = pull
    document = b'{"wait":"60s","topics":["orders"]}' if path == "/v1/pull" else b'{"wait":"60s"}'
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST %b HTTP/1.1\r\nHost: [::1]\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(document), document)
    )
    await asyncio.wait_for(waiting.wait(), 5)
    assert not cancelled.is_set()
    writer.close()
    await asyncio.wait_for(cancelled.wait(), 5)


async def test_a_declared_size_over_the_limit_is_refused_before_the_body_is_read(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/topics/orders/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000000\r\n\r\n{")
    answer = await asyncio.wait_for(_answer(reader), 5)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"content-type: application/problem+json" in answer
    assert b'{"field":"request","value":9000000000,"limit":%d,' % _LIMIT in answer
    writer.close()


async def test_a_stream_is_refused_once_it_passes_the_limit(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/topics/orders/messages HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    for _ in range(_LIMIT // 65_536 + 1):
        writer.write(chunk)
    answer = await asyncio.wait_for(_answer(reader), 5)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"limit":%d,' % _LIMIT in answer
    writer.close()


async def test_a_stream_within_the_limit_is_read(port: int) -> None:
    async def document() -> AsyncIterator[bytes]:
        yield b'{"bo'
        yield b'dy": 1, "delay": "x"}'

    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        response = await client.post("/v1/topics/orders/messages", content=document())
        assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "delay")


async def test_an_encoded_slash_does_not_split_a_segment(service: Any, port: int) -> None:
    service.answers["lookup.get"] = service.message()
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        assert (await client.get("/v1/topics/shop%2Forders/messages/a%2520b")).status_code == 200
    assert service.calls == [("lookup.get", ("shop/orders", "a%20b"), {})]


async def test_an_incomplete_request_does_not_disturb_others(port: int) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/topics/orders/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{")
    await writer.drain()
    writer.close()
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        assert (await client.get("/health/live")).status_code == 200
