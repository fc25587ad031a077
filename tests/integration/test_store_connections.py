"""Tests that many callers share few connections to Redis, and that the loops do not wait behind them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bridge.local.redis import RedisNode
from bridge.service.service import Service
from bridge.settings.settings import Settings
from bridge.store.client import Store
from bridge.store.clock import StoreClock
from bridge.store.replies import binary
from bridge.store.servers.connect import connect
from bridge.store.servers.pipelines import PLACES
from bridge.store.servers.server import RedisServer
from bridge.store.servers.servers import pack
from tests.matrix.servers import Servers
from tests.proxy import Proxy

CALLERS = 1_000


async def connections_that_echoed(store: Store) -> int:
    """The number of connections over which only this test sends commands."""
    return binary(await store.command("CLIENT", "LIST")).count(b" cmd=echo ")


async def test_a_thousand_callers_at_once_are_answered_over_few_connections(redis_node: RedisNode) -> None:
    store = Store(redis_node.url, timeout_ms=10_000)
    try:
        answers = await asyncio.gather(*(store.command("ECHO", f"{number}") for number in range(CALLERS)))
        assert answers == [b"%d" % number for number in range(CALLERS)]
        # One of them has listed the others since.
        assert 0 < await connections_that_echoed(store) < PLACES
    finally:
        await store.close()


async def test_a_loop_does_not_wait_behind_a_thousand_requests(local_dir: Path, servers: Servers) -> None:
    with servers.redis_node(local_dir / "redis-behind-requests") as redis:
        async with Proxy(redis.url) as proxy:
            service = Service(Settings(redis_url=proxy.url, store_timeout=60_000))
            of_requests, of_loops = service.context.store, service.loops_context.store
            await asyncio.gather(of_requests.command("ECHO", "1"), of_loops.command("ECHO", "1"))
            proxy.latency_s = 0.02
            requests = [asyncio.create_task(of_requests.command("ECHO", "1")) for _ in range(CALLERS)]
            await asyncio.sleep(0)

            await of_loops.command("ECHO", "1")

            assert sum(request.done() for request in requests) < CALLERS / 2
            proxy.latency_s = 0.0
            await asyncio.gather(*requests)
            await service.stop()


@pytest.mark.parametrize("turns", range(8))
async def test_a_cancelled_call_ends_at_once(redis_node: RedisNode, turns: int) -> None:
    """The call is cancelled after so many turns of the event loop: before, while and after it writes its command."""
    store = Store(redis_node.url, timeout_ms=10_000)
    try:
        await store.command("ECHO", "1")  # it is connected from now on
        call = asyncio.create_task(store.command("ECHO", "2"))
        for _ in range(turns):
            await asyncio.sleep(0)
        assert call.cancel() or call.done()
        await asyncio.wait([call])
        assert call.cancelled() or call.cancelling() == 0
    finally:
        await store.close()


async def test_closing_idle_connections_fails_no_call(redis_node: RedisNode) -> None:
    """A refusal such as READONLY, or a server that has left a cluster, closes the idle ones."""
    server = connect(redis_node.url, StoreClock(), timeout_s=10)
    assert isinstance(server, RedisServer)
    echo = pack("", "ECHO", "1")
    try:
        for turns in range(8):
            await asyncio.gather(*(server.ask([echo]) for _ in range(PLACES)))
            closing = asyncio.create_task(server.close_idle())
            for _ in range(turns):
                await asyncio.sleep(0)
            assert await asyncio.gather(*(server.ask([echo]) for _ in range(PLACES))) == [[b"1"]] * PLACES
            await closing
    finally:
        await server.close()


async def test_no_call_fails_on_a_connection_that_redis_has_closed_before(redis_node: RedisNode) -> None:
    """As a restart of Redis does, or its `timeout`."""
    store = Store(redis_node.url, timeout_ms=10_000)
    try:
        await asyncio.gather(*(store.command("ECHO", "1") for _ in range(PLACES)))
        clients = binary(await store.command("CLIENT", "LIST")).splitlines()
        async with Redis.from_url(redis_node.url) as other:
            for client in clients:
                if b" cmd=echo " in client:
                    await other.client_kill_filter(_id=client.split()[0].removeprefix(b"id=").decode())
        assert await asyncio.gather(*(store.command("ECHO", "1") for _ in range(PLACES))) == [b"1"] * PLACES
    finally:
        await store.close()
