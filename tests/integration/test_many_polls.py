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
from bridge.local.rabbitmq import RabbitNode
from bridge.model.breaker import Breaker
from tests.integration.amqp import Amqp
from tests.waiting import pause

pytestmark = pytest.mark.timeout(120)

POLLS = 5_000
WAIT_MS = 100_000
MOST_CHANNELS = 32


@pytest_asyncio.fixture
async def connection(rabbit: RabbitNode) -> AsyncIterator[BrokerConnection]:
    connection = BrokerConnection(
        [rabbit.amqp_url], purpose="test", timeout_ms=10_000, check=lambda _: None, breaker=Breaker()
    )
    yield connection
    await connection.drop()


@pytest_asyncio.fixture
async def queue(amqp: Amqp) -> AsyncIterator[str]:
    """An empty quorum queue."""
    name = f"polled-{uuid4().hex[:12]}"
    async with amqp.connection.channel() as channel:
        await channel.declare_queue(name, durable=True, arguments={"x-queue-type": "quorum"})
    yield name
    await amqp.delete_queue(name)


async def channels_of(connection: BrokerConnection) -> int:
    transport = (await connection.raw_connection()).transport
    assert transport is not None
    return sum(channel is not None for channel in transport.connection.channels.values())


async def until_no_channels(connection: BrokerConnection) -> None:
    while await channels_of(connection):
        await pause()


async def test_five_thousand_long_polls_wait_at_once_and_leave_no_channel(
    connection: BrokerConnection, queue: str, amqp: Amqp
) -> None:
    poller, ending = LongPoll(connection, timeout_ms=10_000), asyncio.Event()
    polls = [asyncio.create_task(poller.wait([queue], WAIT_MS, ending)) for _ in range(POLLS)]
    await amqp.until_consumers(queue, POLLS)
    assert await channels_of(connection) <= MOST_CHANNELS
    async with amqp.connection.channel() as channel:
        await channel.default_exchange.publish(aio_pika.Message(b"1"), queue)
    done, _ = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
    for poll in done:
        for taken in poll.result():
            await taken.ack()
    ending.set()
    assert [len(taken) for taken in await asyncio.gather(*polls)].count(1) == 1
    await amqp.until_consumers(queue, 0)
    await until_no_channels(connection)


async def test_polls_that_end_empty_beside_waiting_ones_open_few_channels(
    connection: BrokerConnection, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poll_channels, "_DOUBTED_FOR_S", 0.0)
    poller, ending, at_once = LongPoll(connection, timeout_ms=10_000), asyncio.Event(), asyncio.Event()
    at_once.set()
    waiting: list[asyncio.Task[object]] = []
    for _ in range(3 * MOST_CHANNELS):
        waiting.append(asyncio.create_task(poller.wait([queue], WAIT_MS, ending)))
        assert await poller.wait([queue], WAIT_MS, at_once) == []
        assert await channels_of(connection) <= MOST_CHANNELS
    ending.set()
    assert await asyncio.gather(*waiting) == [[]] * len(waiting)
    await until_no_channels(connection)
