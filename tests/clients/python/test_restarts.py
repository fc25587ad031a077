"""Tests that a consumer goes on when its bridge is killed and started again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from delaybridge_client import Client, Delivery, NewMessage
from tests.forked_bridge import PATIENT, ForkedBridge
from tests.waiting import pause

_MESSAGES = 200


@pytest.fixture
def mortal(bridge_url: str, rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> Iterator[ForkedBridge]:
    """A bridge beside the worker's, which the test kills."""
    given = {"BRIDGE_AMQP_URL": rabbit.amqp_url, "BRIDGE_REDIS_URL": redis_node.url, **PATIENT}
    bridge = ForkedBridge(local_dir / "mortal" / "bridge.log", free_ports(1)[0], given)
    bridge.start()
    yield bridge
    bridge.kill()


async def test_consumer_outlives_its_bridge(client: Client, topic: str, mortal: ForkedBridge) -> None:
    await client.send_many(topic, [NewMessage(number) for number in range(_MESSAGES)])
    handled: set[str] = set()
    half = asyncio.Event()

    async def handle(delivery: Delivery) -> None:
        handled.add(delivery.id)
        if len(handled) == _MESSAGES // 2:
            half.set()
            await pause()  # so that the bridge dies while messages are held

    async with Client(mortal.url) as consuming:
        consumer = consuming.consumer(topic, concurrency=10, lease=timedelta(seconds=2))
        running = asyncio.create_task(consumer.run(handle))
        await half.wait()
        await asyncio.to_thread(mortal.kill)
        await asyncio.to_thread(mortal.start)
        while (await client.look_at_topic(topic)).counts["acked"] < _MESSAGES:
            await pause()
        consumer.stop()
        await running
    assert len(handled) == _MESSAGES
    assert consumer.counts.acked + consumer.counts.late >= _MESSAGES
