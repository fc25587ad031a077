"""Tests that a door holds little memory, however its clients and the broker behave, and keeps their pauses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest

from bridge.door.connection import BUFFER_BYTES, Connection
from bridge.door.requests import GREETING
from tests.door.conftest import Opened, opened
from tests.waiting import pause

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

BODY = b"\x03\x00\x01\x00\x01\x00\x00" + bytes(65_536) + b"\xce"
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
ONE_READ_BYTES = 256 * 1024  # that the event loop takes of a socket at once


@asynccontextmanager
async def silent_server() -> AsyncIterator[tuple[int, asyncio.Queue[Streams]]]:
    """A server that does nothing by itself: its port, and the connections to it."""
    connections: asyncio.Queue[Streams] = asyncio.Queue()
    writers = []

    def accepted(*streams: Any) -> None:
        writers.append(streams[1])
        connections.put_nowait(streams)

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], connections
        for writer in writers:
            writer.transport.abort()


@asynccontextmanager
async def joined(door: Opened, connections: asyncio.Queue[Streams]) -> AsyncIterator[tuple[Streams, Streams]]:
    """A client's streams, and those of its server behind the door, after the greeting."""
    client = await asyncio.open_connection("127.0.0.1", door.port)
    client[1].write(GREETING)
    server = await connections.get()
    assert await server[0].readexactly(len(GREETING)) == GREETING
    yield client, server
    for _, writer in (client, server):
        writer.transport.abort()


async def flood(writer: asyncio.StreamWriter) -> int:
    """Writes until the other side takes no more for a while. Returns how many bytes it took."""
    writer.transport.set_write_buffer_limits(high=0)
    written = 0
    with suppress(TimeoutError):
        while True:
            writer.write(BODY)
            async with asyncio.timeout(1):
                await writer.drain()
            written += len(BODY)
    return written


def reading(_: asyncio.StreamReader, writer: asyncio.StreamWriter, reads: bool) -> None:
    transport = cast(asyncio.Transport, writer.transport)
    (transport.resume_reading if reads else transport.pause_reading)()


def only(door: Opened) -> Connection:
    (connection,) = door.door._open
    return connection


async def test_client_that_reads_nothing_stops_the_broker() -> None:
    async with (
        silent_server() as (port, connections),
        opened(port) as door,
        joined(door, connections) as (client, server),
    ):
        reading(*client, False)
        written = await flood(server[1])
        transport = only(door)._client
        assert transport is not None
        held = transport.get_write_buffer_size()
        assert BUFFER_BYTES < held <= BUFFER_BYTES + ONE_READ_BYTES
        reading(*client, True)
        received = await client[0].readexactly(written)
        assert received == BODY * (written // len(BODY))


async def test_broker_that_reads_nothing_stops_the_client() -> None:
    async with (
        silent_server() as (port, connections),
        opened(port) as door,
        joined(door, connections) as (client, server),
    ):
        reading(*server, False)
        written = await flood(client[1])
        transport = only(door)._server
        assert transport is not None
        assert BUFFER_BYTES < transport.get_write_buffer_size() <= BUFFER_BYTES + ONE_READ_BYTES
        reading(*server, True)
        assert await server[0].readexactly(written) == BODY * (written // len(BODY))


async def test_heartbeats_pass_in_both_directions() -> None:
    async with (
        silent_server() as (port, connections),
        opened(port) as door,
        joined(door, connections) as (client, server),
    ):
        client[1].write(HEARTBEAT)
        assert await server[0].readexactly(len(HEARTBEAT)) == HEARTBEAT
        server[1].write(HEARTBEAT)
        assert await client[0].readexactly(len(HEARTBEAT)) == HEARTBEAT


async def test_client_that_goes_takes_its_connection_to_the_broker_along() -> None:
    async with (
        silent_server() as (port, connections),
        opened(port) as door,
        joined(door, connections) as (client, server),
    ):
        client[1].write(HEARTBEAT)
        client[1].close()
        assert await server[0].read() == HEARTBEAT


async def test_broker_that_goes_takes_the_client_along() -> None:
    async with (
        silent_server() as (port, connections),
        opened(port) as door,
        joined(door, connections) as (client, server),
    ):
        server[1].write(HEARTBEAT)
        server[1].close()
        assert await client[0].read() == HEARTBEAT


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", GREETING + b"\x01\x00\x01\xff\xff\xff\xff"])
async def test_client_without_amqp_is_closed(sent: bytes) -> None:
    async with silent_server() as (port, _), opened(port) as door:
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        writer.write(sent)
        assert await reader.read() == b""
        writer.close()


async def test_clients_beyond_the_limit_are_closed_and_places_return() -> None:
    async with (
        silent_server() as (port, connections),
        opened(port, most=2) as door,
        joined(door, connections),
    ):
        async with joined(door, connections):
            reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
        while len(door.door._open) == 2:
            await pause()
        async with joined(door, connections):
            assert len(door.door._open) == 2


async def test_client_that_leaves_before_the_broker_answers_leaves_nothing() -> None:
    async with silent_server() as (port, connections), opened(port) as door:
        _, writer = await asyncio.open_connection("127.0.0.1", door.port)
        writer.transport.abort()
        while not connections.qsize() and door.door._open:
            await pause()
        while door.door._open:
            await pause()
