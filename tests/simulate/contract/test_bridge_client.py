"""Runs the bridge's own client and topology on both brokers: what they need must be there, whatever the tests name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest

from bridge.broker.client.connection import BrokerConnection
from bridge.broker.client.consumer import Consumer, Delivery
from bridge.broker.client.publisher import Outgoing, Publisher
from bridge.broker.copies.properties import Properties
from bridge.broker.unconfirmed import Unconfirmed
from bridge.model.breaker import Breaker
from bridge.model.errors import Unroutable
from tests.simulate.contract.client import WITHIN_S
from tests.simulate.contract.conftest import Node
from topology import plan
from topology.declare import apply, remove
from topology.names import Names
from topology.verify import check_server
from topology.wheel import route


@pytest.fixture
async def connection(node: Node) -> AsyncIterator[BrokerConnection]:
    url = f"amqp://guest:guest@127.0.0.1:{node.port}/{quote(node.vhost, safe='')}"
    connection = BrokerConnection([url], purpose="test", timeout_ms=10_000, check=check_server, breaker=Breaker())
    yield connection
    await connection.drop()


async def test_message_passes_two_slots_of_the_wheel_on_time(node: Node, connection: BrokerConnection) -> None:
    """The topology declares twice without a change; the publisher and the consumer of the bridge do the rest."""
    names = Names(prefix=node.name("delay"), ready=node.name("ready."))
    entry = route(names, 1_100, "orders")
    wanted = plan.core(names) + plan.topic(names, "orders", direct=True)
    wanted += plan.merged(plan.slot(names, *slot) for slot in entry.slots)
    raw = await connection.raw_connection()
    for _ in range(2):
        await apply(raw, wanted)
    publisher = Publisher(connection, timeout_ms=10_000, answers=Unconfirmed(names))
    arrived: asyncio.Queue[Delivery] = asyncio.Queue()
    consumer = await Consumer.open(connection, names.ready_queue("orders"), prefetch=10, received=arrived.put_nowait)
    clock = asyncio.get_running_loop()

    began_s = clock.time()
    await publisher.publish_one(
        Outgoing(entry.exchange, entry.routing_key, Properties(message_id="m", headers={"a": 1}), b"body")
    )
    async with asyncio.timeout(WITHIN_S):
        delivery = await arrived.get()

    assert clock.time() - began_s >= 1.1
    assert (delivery.body, delivery.properties.message_id, delivery.redelivered) == (b"body", "m", False)
    assert delivery.routing_key == entry.routing_key
    consumer.ack([delivery.delivery_tag])
    await consumer.close()
    await remove(raw, wanted)


async def test_publisher_knows_unroutable_messages_from_confirmed_ones(
    node: Node, connection: BrokerConnection
) -> None:
    channel = await connection.channel()
    async with asyncio.timeout(WITHIN_S):
        await (await node.channel()).declare(node.name("q"))
    publisher = Publisher(connection, timeout_ms=10_000, answers=Unconfirmed(Names()))

    errors = await publisher.publish(
        [Outgoing("", node.name("q" if at % 2 else "none"), Properties(message_id=str(at)), b"") for at in range(6)]
    )

    assert [type(error) for error in errors] == [Unroutable, type(None)] * 3
    assert await channel.depth(node.name("q")) == 3
    await connection.close(channel)
