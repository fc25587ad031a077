"""Tests that a broker which answers the close of a channel late keeps the connection."""

from __future__ import annotations

import asyncio

import pytest

from bridge.broker.client.connection import BrokerConnection
from bridge.model.breaker import Breaker
from tests.fault.stage import Stage
from tests.proxy import Proxy

LATE_S = 0.5


async def test_a_close_that_runs_out_of_time_leaves_the_connection_open(stage: Stage) -> None:
    async with Proxy(stage.rabbit.amqp_url) as proxy:
        connection = BrokerConnection(
            [proxy.url], purpose="test", timeout_ms=10_000, check=lambda _: None, breaker=Breaker()
        )
        channel, lasting = await connection.channel(), await connection.channel()
        proxy.fall_silent(requests=False)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(LATE_S):
                await channel.close()
        proxy.speak()

        await connection.ping()

        assert connection.generation == 1
        assert not lasting.is_closed
        await connection.drop()
