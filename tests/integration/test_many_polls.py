"""Tests the feeds of many topics in one process: they share few channels, and leave none behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import aio_pika
import pytest
import pytest_asyncio

from bridge.broker.client.connection import BrokerConnection
from bridge.broker.ready import feed_channels
from bridge.broker.ready.feed import Feeds
from tests.integration.amqp import Amqp
from tests.waiting import pause

MOST_CHANNELS = 32
QUEUES = 2 * MOST_CHANNELS + 1


@pytest_asyncio.fixture(scope="module")
async def queues(amqp: Amqp) -> AsyncIterator[list[str]]:
    """Empty queues. Classic ones, as RabbitMQ declares them with less CPU, and channels do not depend on it."""
    names = [f"polled-{number}-{uuid4().hex[:12]}" for number in range(QUEUES)]
    async with amqp.connection.channel() as channel:
        for name in names:
            await channel.declare_queue(name, durable=True)
    yield names
    for name in names:
        await amqp.delete_queue(name)


async def channels_of(connection: BrokerConnection) -> int:
    return len((await connection.raw_connection()).transport._channels)


async def until_no_channels(connection: BrokerConnection) -> None:
    while await channels_of(connection):
        await pause()


async def test_feeds_of_many_queues_share_few_channels_and_leave_none(
    connection: BrokerConnection, queues: list[str], amqp: Amqp
) -> None:
    feeds, came = Feeds(connection, timeout_ms=10_000), asyncio.Event()
    opened = await asyncio.gather(*(feeds.open(queue, 1, came.set) for queue in queues))
    assert await channels_of(connection) <= MOST_CHANNELS
    async with amqp.connection.channel() as channel:
        await channel.default_exchange.publish(aio_pika.Message(b"1"), queues[0])
    await came.wait()
    (taken,) = opened[0].take(1)
    taken.ack()
    for feed in opened:
        await feed.cancel()
        feed.leave()
    for queue in queues:
        await amqp.until_consumers(queue, 0)
    await until_no_channels(connection)


async def test_feeds_that_end_empty_beside_others_open_few_channels(
    connection: BrokerConnection, queues: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_channels, "_DOUBTED_FOR_S", 0.0)
    feeds, standing = Feeds(connection, timeout_ms=10_000), []
    for queue in queues[:-1]:
        standing.append(await feeds.open(queue, 1, lambda: None))
        short = await feeds.open(queues[-1], 1, lambda: None)
        await short.cancel()
        short.leave()
        assert await channels_of(connection) <= MOST_CHANNELS
    for feed in standing:
        await feed.cancel()
        feed.leave()
    await until_no_channels(connection)
