"""Tests that the bridge's consumers get back what RabbitMQ has delivered and nobody has received.

RabbitMQ loses such deliveries when the leader of a queue ends. Here the process ignores them: for RabbitMQ that is the
same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import aio_pika
import pytest
import pytest_asyncio

from bridge.broker.client import consumer as module
from bridge.broker.client.connection import BrokerConnection
from bridge.broker.client.consumer import Consumer, Delivery
from bridge.local.rabbitmq import RabbitNode
from bridge.model.breaker import Breaker
from tests.integration.amqp import Amqp
from tests.waiting import pause


@pytest_asyncio.fixture
async def amqp(rabbit: RabbitNode) -> AsyncIterator[Amqp]:
    async with await aio_pika.connect(rabbit.amqp_url) as connection:
        yield Amqp(connection)


@pytest_asyncio.fixture
async def queue(amqp: Amqp) -> AsyncIterator[str]:
    name = f"lost-{uuid4().hex[:12]}"
    async with amqp.connection.channel() as channel:
        await channel.declare_queue(name, durable=True, arguments={"x-queue-type": "quorum"})
    yield name
    await amqp.delete_queue(name)


@pytest_asyncio.fixture
async def link(rabbit: RabbitNode) -> AsyncIterator[BrokerConnection]:
    """A connection that knows a second node."""
    nodes = [rabbit.amqp_url, rabbit.amqp_url]
    link = BrokerConnection(nodes, purpose="test", timeout_ms=30_000, check=lambda _: None, breaker=Breaker())
    yield link
    await link.drop()


def ignore(consumer: Consumer) -> None:
    """Ignores the next deliveries of the consumer."""
    consumer._channels[-1].raw._delivered = lambda *_: None  # type: ignore[method-assign]


async def test_delivery_that_was_lost_comes_again_while_an_earlier_one_is_held(
    link: BrokerConnection, amqp: Amqp, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived: list[Delivery] = []
    consumer = await Consumer.open(link, queue, prefetch=10, received=arrived.append)
    await amqp.publish("", queue, b"held")
    while not arrived:
        await pause()
    ignore(consumer)
    await amqp.publish("", queue, b"lost")
    monkeypatch.setattr(module, "_SILENT_S", 0.3)
    watching = asyncio.create_task(consumer.until_closed())
    while len(consumer._channels) == 1:
        await pause()
    assert len(arrived) == 1  # what is held keeps the first channel open

    consumer.ack([arrived[0].delivery_tag])
    while len(arrived) == 1:
        await pause()
    consumer.ack([arrived[1].delivery_tag])

    assert [one.body for one in arrived] == [b"held", b"lost"]
    assert len({one.delivery_tag for one in arrived}) == 2
    assert link.generation == 1
    watching.cancel()
    await consumer.close()
    while await amqp.count(queue):
        await pause()
    assert [one.body for one in arrived] == [b"held", b"lost"]


async def test_silent_consumer_keeps_one_channel(
    link: BrokerConnection, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SILENT_S", 0.1)
    consumer = await Consumer.open(link, queue, prefetch=10, received=lambda _: None)
    watching = asyncio.create_task(consumer.until_closed())
    first = consumer._channels[0]
    while first in consumer._channels:
        await pause()
    assert not first.raw.is_open
    assert len(consumer._channels) < 40  # each stays for a second
    watching.cancel()
    await consumer.close()
    assert link.is_open


async def test_silent_consumer_that_holds_much_takes_no_more(
    link: BrokerConnection, amqp: Amqp, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SILENT_S", 0.05)
    arrived: list[Delivery] = []
    consumer = await Consumer.open(link, queue, prefetch=2, received=arrived.append)
    for _ in range(3):
        await amqp.publish("", queue)
    while len(arrived) < 2:
        await pause()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await consumer.until_closed()
    assert (len(arrived), len(consumer._channels)) == (2, 1)
    await consumer.close()
