"""Tests that a broker which answers the close of a channel late keeps the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bridge.broker.client.connection import BrokerConnection
from bridge.model.breaker import Breaker
from tests.inside.stage import AnyProxy, Stage
from topology.channels import plain_channel

LATE_S = 0.5


async def close_of_the_client(connection: BrokerConnection, proxy: AnyProxy) -> None:
    channel = await connection.channel()
    proxy.fall_silent(requests=False)
    await channel.close()


async def close_of_the_topology(connection: BrokerConnection, proxy: AnyProxy) -> None:
    async with plain_channel(await connection.raw_connection()):
        proxy.fall_silent(requests=False)


@pytest.mark.parametrize("close", [close_of_the_client, close_of_the_topology])
async def test_a_close_that_runs_out_of_time_leaves_the_connection_open(
    stage: Stage, close: Callable[[BrokerConnection, AnyProxy], Awaitable[None]]
) -> None:
    async with stage.proxy(stage.amqp_url) as proxy:
        connection = BrokerConnection(
            [proxy.url], purpose="test", timeout_ms=10_000, check=lambda _: None, breaker=Breaker()
        )
        lasting = await connection.channel()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(LATE_S):
                await close(connection, proxy)
        proxy.speak()

        await connection.ping()

        assert connection.generation == 1
        assert lasting.is_open
        await connection.drop()
