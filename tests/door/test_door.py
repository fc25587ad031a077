"""Tests the door in front of a real broker, with a client of the delayed-message plugin."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aio_pika
import pytest
import trustme
from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractChannel, AbstractExchange, AbstractIncomingMessage, AbstractQueue, HeadersType
from aio_pika.exceptions import (
    AMQPConnectionError,
    AMQPError,
    ChannelNotFoundEntity,
    ProbableAuthenticationError,
)

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from tests.door.conftest import Migrated, Opened, opened

HELD: HeadersType = {"x-opt-delivery-time": 2**41}
"""Quorum queues of RabbitMQ 4.4 hold a message with it."""


@pytest.fixture
async def door(rabbit: RabbitNode) -> AsyncIterator[Opened]:
    async with opened(rabbit.port) as door:
        yield door


@pytest.fixture
async def channel(door: Opened, rabbit: RabbitNode) -> AsyncIterator[AbstractChannel]:
    """A client's channel through the door."""
    async with await aio_pika.connect(door.url(rabbit.amqp_url)) as connection:
        yield await connection.channel(on_return_raises=True)


async def declared(channel: AbstractChannel, name: str) -> AbstractExchange:
    """Declares the exchange as clients of the plugin do at every start."""
    return await channel.declare_exchange(
        name, "x-delayed-message", durable=True, arguments={"x-delayed-type": "topic"}
    )


async def next_of(queue: AbstractQueue) -> AbstractIncomingMessage:
    async with queue.iterator(no_ack=True) as deliveries:
        return await anext(deliveries)


async def test_publish_with_a_delay_reaches_the_ingress_and_no_consumer(
    channel: AbstractChannel, migrated: Migrated
) -> None:
    exchange = await declared(channel, migrated.exchange)
    await exchange.publish(Message(b"later", headers={"x-delay": 60_000, **HELD}, message_id="one"), "a.b")
    await exchange.publish(Message(b"now", headers=HELD), "a.b")
    now, later = await next_of(migrated.queue), await next_of(migrated.ingress)
    assert (now.body, now.exchange, now.routing_key) == (b"now", migrated.exchange, "a.b")
    assert (later.body, later.exchange, later.routing_key) == (b"later", migrated.ingress_exchange, "a.b")
    assert (later.headers, later.message_id) == ({"x-delay": 60_000}, "one")
    assert now.headers == HELD
    assert await migrated.queue.get(fail=False) is None


async def test_without_an_ingress_a_publish_with_a_delay_fails(
    channel: AbstractChannel, direct: AbstractChannel
) -> None:
    plain = await direct.declare_exchange("door-without-ingress", "topic", auto_delete=True)
    consumer = await direct.declare_queue("door-without-ingress", exclusive=True)
    await consumer.bind(plain, "#")
    exchange = await channel.get_exchange(plain.name)
    with pytest.raises(ChannelNotFoundEntity, match=r"delay\.in\.door-without-ingress"):
        await exchange.publish(Message(b"later", headers={"x-delay": 60_000}), "a")
    assert await consumer.get(fail=False) is None


async def test_declare_of_an_exchange_that_does_not_exist_fails(channel: AbstractChannel) -> None:
    with pytest.raises(ChannelNotFoundEntity, match="no exchange 'door-missing'"):
        await declared(channel, "door-missing")


async def test_large_body_passes_whole(channel: AbstractChannel, migrated: Migrated) -> None:
    body = bytes(range(256)) * 20_000
    exchange = await declared(channel, migrated.exchange)
    large = Message(body, headers={"x-delay": 60_000}, delivery_mode=DeliveryMode.PERSISTENT)
    await exchange.publish(large, "a")
    assert (await next_of(migrated.ingress)).body == body
    await exchange.publish(Message(body), "a")
    assert (await next_of(migrated.queue)).body == body


async def test_login_is_that_of_the_client(door: Opened, rabbit: RabbitNode) -> None:
    wrong = door.url(rabbit.amqp_url).replace("guest:guest", "guest:wrong")
    with pytest.raises(ProbableAuthenticationError):
        await aio_pika.connect(wrong)


async def test_second_node_serves_when_the_first_is_away(rabbit: RabbitNode, migrated: Migrated) -> None:
    async with opened(free_ports(1)[0], rabbit.port) as door:
        for _ in range(2):
            async with await aio_pika.connect(door.url(rabbit.amqp_url)) as connection:
                await declared(await connection.channel(), migrated.exchange)


async def test_without_a_broker_the_client_is_closed() -> None:
    async with opened(free_ports(1)[0]) as door:
        with pytest.raises((AMQPError, ConnectionError)):
            await aio_pika.connect(door.url("amqp://guest:guest@unused/"))


async def test_tls_ends_at_the_door(rabbit: RabbitNode, migrated: Migrated, tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with opened(rabbit.port, tls=context) as door:
        url = door.url(rabbit.amqp_url, "amqps")
        async with await aio_pika.connect(url, ssl_context=trusting) as connection:
            exchange = await declared(await connection.channel(), migrated.exchange)
            await exchange.publish(Message(b"later", headers={"x-delay": 60_000}), "a")
        with pytest.raises(AMQPConnectionError):
            await aio_pika.connect(url.replace("amqps", "amqp"))
    assert (await next_of(migrated.ingress)).body == b"later"


async def test_shutdown_tells_each_client_as_the_broker_does(rabbit: RabbitNode) -> None:
    async with opened(rabbit.port) as door:
        connection = await aio_pika.connect(door.url(rabbit.amqp_url))
        closing = connection.transport
        assert closing is not None
        await door.door.stop(drain_s=0, grace_s=20)
        with pytest.raises(AMQPError, match="CONNECTION_FORCED - the door is shutting down"):
            await closing.connection.closing
