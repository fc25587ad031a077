from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from time import monotonic
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from tests.proxy import Proxy

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest_asyncio.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """Provides a proxy in front of a server that echoes."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while said := await reader.read(100):
            writer.write(said)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server:
        proxy = Proxy(f"redis://user:word@127.0.0.1:{server.sockets[0].getsockname()[1]}/0")
        await proxy.start()
        yield proxy
        await proxy.stop()


@asynccontextmanager
async def connected(proxy: Proxy) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(proxy.url).port)
    yield reader, writer
    writer.transport.abort()


async def echoed(client: Client) -> bytes:
    """Returns the echo of one byte; empty if the connection is closed, cleanly or not."""
    reader, writer = client
    try:
        writer.write(b"x")
        return await reader.read(1)
    except ConnectionError:
        return b""


def test_the_address_differs_by_its_port_alone() -> None:
    url = Proxy("amqp://guest:guest@127.0.0.1:5672/").url
    assert url == f"amqp://guest:guest@127.0.0.1:{urlsplit(url).port}/"
    assert urlsplit(url).port != 5672


async def test_a_cut_closes_all_connections_and_accepts_none_until_it_is_mended(proxy: Proxy) -> None:
    async with connected(proxy) as before:
        assert await echoed(before) == b"x"
        proxy.cut()
        assert await echoed(before) == b""
    async with connected(proxy) as meanwhile:
        assert await echoed(meanwhile) == b""
    proxy.mend()
    async with connected(proxy) as afterwards:
        assert await echoed(afterwards) == b"x"


@pytest.mark.parametrize("latency_s", [0.05, 0.2])
async def test_latency_is_added_in_both_directions(proxy: Proxy, latency_s: float) -> None:
    async with connected(proxy) as client:
        proxy.latency_s = latency_s
        began_s = monotonic()
        assert await echoed(client) == b"x"
        assert monotonic() - began_s >= 2 * latency_s - 0.002  # timers may be a tick short


async def test_a_connection_that_is_accepted_during_a_stop_is_closed(proxy: Proxy) -> None:
    loop = asyncio.get_running_loop()
    with socket.create_connection(("127.0.0.1", proxy.port)) as client:  # the proxy has not accepted it yet
        client.setblocking(False)
        # In the next round the proxy accepts it. In the one after that it stops, and only then looks at it.
        stopped = loop.create_future()
        loop.call_soon(lambda: loop.create_task(proxy.stop()).add_done_callback(stopped.set_result))
        await stopped
        with suppress(ConnectionResetError):
            assert await loop.sock_recv(client, 1) == b""
