"""Tests that a Redis failover under Sentinel loses no message and needs no restart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from redis.asyncio import Redis

from bridge.local.redis_sentinels import RedisSentinels
from bridge.store.clock import StoreClock
from bridge.store.servers.connect import connect
from bridge.store.servers.sentinel import SentinelMaster
from bridge.store.servers.servers import pack
from tests.events import What
from tests.fault.api import Api
from tests.fault.consumers import ended, over_amqp, over_http
from tests.fault.load import Load
from tests.fault.stage import Stage, killed, started
from tests.fault.whereabouts import whereabouts
from tests.history import History
from tests.matrix.servers import Servers
from tests.replies import read_each

RATE_PER_S = 15
PULLED, CONSUMED = "failover-pulled", "failover-consumed"


@pytest.fixture(scope="module")
def sentinels(local_dir: Path, servers: Servers) -> Iterator[RedisSentinels]:
    folder, installed = local_dir / "redis-sentinels", servers.redis_installation
    with RedisSentinels(folder, installation=installed, program=servers.redis_program) as sentinels:
        yield sentinels


@pytest.mark.parametrize("protocol", [2, 3])
async def test_every_answer_of_a_master_under_sentinels_is_read(sentinels: RedisSentinels, protocol: int) -> None:
    await read_each(sentinels.url, protocol)


async def test_master_is_found_although_the_sentinels_have_closed_their_connections(sentinels: RedisSentinels) -> None:
    server = connect(sentinels.url, StoreClock(), timeout_s=10)
    assert isinstance(server, SentinelMaster)
    try:
        await server.ask([pack("", "ECHO", "1")])
        for sentinel in server._sentinel.sentinels:
            await sentinel.ping()
        for port in (*(one.port for one in sentinels.sentinels), sentinels.master.port):
            async with Redis(port=port) as other:
                await other.client_kill_filter(_type="normal")
        assert await server.ask([pack("", "ECHO", "2")]) == [b"2"]
    finally:
        await server.close()


@pytest.mark.timeout(200)
async def test_kill_of_the_redis_master_loses_no_message_and_the_replica_takes_over(
    stage: Stage, sentinels: RedisSentinels, http: httpx2.AsyncClient
) -> None:
    bridge = stage.bridge(redis_url=sentinels.url)
    await started(bridge)
    api, history = Api(http, bridge.url), History(max_retry=3)
    load = Load(api, history, [PULLED, CONSUMED], rate_per_s=RATE_PER_S, seed=1)
    consumers = [
        asyncio.create_task(over_http(api, PULLED, history, lease_ms=3_000)),
        asyncio.create_task(over_amqp(stage.rabbit.amqp_url, f"ready.{CONSUMED}", history)),
    ]
    stop = asyncio.Event()
    sending = asyncio.create_task(load.run(stop))
    try:
        await history.more_accepted(5 * RATE_PER_S, within_s=40)
        before = sentinels.master
        await killed(before)
        await history.more_accepted(5 * RATE_PER_S, within_s=40)
        assert sentinels.master is not before
        stop.set()
        await sending
        # The bridge accepts a lease copy that the replica does not know after a minute.
        await history.nothing_lost(within_s=100)
    finally:
        await ended(sending, *consumers)
    assert max(history.counts(What.SENDING).values()) > 1  # some sends were refused during the failover
    verdict = history.verdict()
    broken = verdict.lost, verdict.early
    assert broken == ((), ()), await whereabouts(history, api, [PULLED, CONSUMED], stage.rabbit)
    assert bridge.running
