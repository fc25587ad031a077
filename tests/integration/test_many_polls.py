"""Tests thousands of long polls in one process: they share few channels, and leave none behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import aio_pika
import pytest
import pytest_asyncio

from bridge.broker.client.connection import BrokerConnection
from bridge.broker.ready import poll_channels
from bridge.broker.ready.long_poll import LongPoll
from tests.integration.amqp import Amqp
from tests.waiting import pause

pytestmark = pytest.mark.timeout(120)

POLLS, QUEUES = 5_000, 50
WAIT_MS = 100_000
MOST_CHANNELS = 32


@pytest_asyncio.fixture
async def queues(amqp: Amqp) -> AsyncIterator[list[str]]:
    """Empty quorum queues. Thousands of consumers of one queue would take RabbitMQ a minute."""
    names = [f"polled-{number}-{uuid4().hex[:12]}" for number in range(QUEUES)]
    async with amqp.connection.channel() as channel:
        for name in names:
            await channel.declare_queue(name, durable=True, arguments={"x-queue-type": "quorum"})
    yield names
    for name in names:
        await amqp.delete_queue(name)


async def channels_of(connection: BrokerConnection) -> int:
    transport = (await connection.raw_connection()).transport
    assert transport is not None
    return sum(channel is not None for channel in transport.connection.channels.values())


async def until_no_channels(connection: BrokerConnection) -> None:
    while await channels_of(connection):
        await pause()


async def test_five_thousand_long_polls_wait_at_once_and_leave_no_channel(
    connection: BrokerConnection, queues: list[str], amqp: Amqp
) -> None:
    poller, ending = LongPoll(connection, timeout_ms=10_000), asyncio.Event()
    polls = [
        asyncio.create_task(poller.wait([queue], WAIT_MS, ending)) for queue in queues for _ in range(POLLS // QUEUES)
    ]
    for queue in queues:
        await amqp.until_consumers(queue, POLLS // QUEUES)
    assert await channels_of(connection) <= MOST_CHANNELS
    async with amqp.connection.channel() as channel:
        await channel.default_exchange.publish(aio_pika.Message(b"1"), queues[0])
    done, _ = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
    for poll in done:
        for taken in poll.result():
            await taken.ack()
    ending.set()
    assert [len(taken) for taken in await asyncio.gather(*polls)].count(1) == 1
    for queue in queues:
        await amqp.until_consumers(queue, 0)
    await until_no_channels(connection)


async def test_polls_that_end_empty_beside_waiting_ones_open_few_channels(
    connection: BrokerConnection, queues: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poll_channels, "_DOUBTED_FOR_S", 0.0)
    poller, ending, at_once = LongPoll(connection, timeout_ms=10_000), asyncio.Event(), asyncio.Event()
    at_once.set()
    waiting: list[asyncio.Task[object]] = []
    for _ in range(3 * MOST_CHANNELS):
        waiting.append(asyncio.create_task(poller.wait(queues[:1], WAIT_MS, ending)))
        assert await poller.wait(queues[:1], WAIT_MS, at_once) == []
        assert await channels_of(connection) <= MOST_CHANNELS
    ending.set()
    assert await asyncio.gather(*waiting) == [[]] * len(waiting)
    await until_no_channels(connection)
