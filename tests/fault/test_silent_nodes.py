"""Tests that a bridge leaves a node that keeps its connections open but stops answering."""

from __future__ import annotations

import asyncio

import aio_pika
import httpx2

from tests.fault.api import PATIENCE_S, Api
from tests.fault.stage import Stage, killed, started
from tests.proxy import Proxy


async def test_publisher_and_checkpoint_leave_a_silent_node(stage: Stage, http: httpx2.AsyncClient) -> None:
    async with Proxy(stage.rabbit.amqp_url) as one, Proxy(stage.rabbit.amqp_url) as other:
        bridge = stage.bridge(amqp_url=f"{one.url},{other.url}")
        other.cut()  # so that all connections are on the node that falls silent
        await started(bridge)
        api = Api(http, bridge.url)
        await api.sent("moved", "before")
        assert one.used
        other.mend()
        one.fall_silent()
        await api.sent("moved", "after", delay=1_000)
        # Nobody pulls, so the consuming connection must detect the silence itself.
        connection = await aio_pika.connect(stage.rabbit.amqp_url)
        async with connection, asyncio.timeout(PATIENCE_S):
            queue = await (await connection.channel()).get_queue("ready.moved")
            async with queue.iterator() as messages:
                async for message in messages:
                    await message.ack()
                    if message.message_id == "after":
                        break
        await killed(bridge)
