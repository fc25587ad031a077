"""Tests the shared consumer of a queue: its window, its order, and what becomes of the buffered messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import aio_pika
import pytest
import pytest_asyncio
from aio_pika import DeliveryMode

from bridge.broker.client.channel import Channel
from bridge.broker.client.connection import BrokerConnection
from bridge.broker.ready.feed import Feed, Feeds
from bridge.broker.ready.taken import Taken, ack_all
from bridge.model.errors import QueueMissing
from tests.integration.amqp import Amqp
from tests.waiting import pause


@pytest_asyncio.fixture
async def queue(amqp: Amqp) -> AsyncIterator[str]:
    """A quorum queue with the messages 0 to 29."""
    name = f"feeding-{uuid4().hex[:12]}"
    async with amqp.connection.channel(on_return_raises=True) as channel:
        await channel.declare_queue(name, durable=True, arguments={"x-queue-type": "quorum"})
        messages = [aio_pika.Message(b"%d" % number, delivery_mode=DeliveryMode.PERSISTENT) for number in range(30)]
        await asyncio.gather(*(channel.default_exchange.publish(one, name) for one in messages))
    yield name
    await amqp.delete_queue(name)


class Fed:
    """A feed of the queue, and the event of its changes."""

    def __init__(self, connection: BrokerConnection, queue: str) -> None:
        self.changed = asyncio.Event()
        self._feeds, self._queue = Feeds(connection, timeout_ms=10_000), queue
        self.feed: Feed

    async def open(self, window: int) -> Feed:
        self.feed = await self._feeds.open(self._queue, window, self.changed.set)
        return self.feed

    async def until_in_hand(self, count: int) -> None:
        while len(self.feed.buffer) < count:
            self.changed.clear()
            await self.changed.wait()


@pytest.fixture
def fed(connection: BrokerConnection, queue: str) -> Fed:
    return Fed(connection, queue)


def numbers(taken: list[Taken]) -> list[int]:
    return [int(one.message.body) for one in taken]


async def test_open_feed_has_its_window_of_messages_in_hand_in_order(fed: Fed, amqp: Amqp, queue: str) -> None:
    feed = await fed.open(10)
    assert numbers(feed.take(100)) == list(range(10))
    assert await amqp.count(queue) == 20


async def test_acknowledged_messages_make_room_in_the_window(fed: Fed) -> None:
    feed = await fed.open(10)
    ack_all(feed.take(4))
    await fed.until_in_hand(10)
    assert numbers(feed.take(100)) == list(range(4, 14))


async def test_resized_feed_keeps_its_hand_and_gets_the_new_window(fed: Fed, amqp: Amqp, queue: str) -> None:
    feed = await fed.open(3)
    await feed.resize(7)
    taken = feed.take(100)
    assert numbers(taken) == list(range(10))
    # A cancelled consumer counts until its messages are acknowledged.
    ack_all(taken)
    await amqp.until_consumers(queue, 1)


async def test_gather_counts_what_the_window_leaves_in_the_queue(fed: Fed) -> None:
    feed = await fed.open(10)
    assert await feed.gather() == 20


async def test_cancelled_feed_gets_no_more_and_keeps_its_hand(fed: Fed, amqp: Amqp, queue: str) -> None:
    feed = await fed.open(10)
    await feed.cancel()
    ack_all(feed.take(10))
    feed.leave()
    await amqp.until_consumers(queue, 0)
    assert (await amqp.count(queue), list(feed.buffer)) == (20, [])


async def test_feed_of_a_deleted_queue_says_so(fed: Fed, amqp: Amqp, queue: str) -> None:
    feed = await fed.open(1)
    assert feed.error is None
    fed.changed.clear()
    await amqp.delete_queue(queue)
    await fed.changed.wait()
    assert isinstance(feed.error, QueueMissing)


async def test_feed_of_a_missing_queue_is_an_error(connection: BrokerConnection) -> None:
    with pytest.raises(QueueMissing):
        await Fed(connection, f"feeding-{uuid4().hex[:12]}").open(1)


async def test_feed_of_a_lost_connection_says_so(fed: Fed, connection: BrokerConnection) -> None:
    feed = await fed.open(1)
    fed.changed.clear()
    await connection.drop()
    await fed.changed.wait()
    assert feed.error is not None


@pytest.mark.parametrize("turns", [0, 1, 2, 5, 10, 20])
async def test_feed_whose_caller_leaves_while_it_opens_leaves_the_messages_ready(
    fed: Fed, amqp: Amqp, queue: str, turns: int
) -> None:
    opening = asyncio.create_task(fed.open(10))
    for _ in range(turns):
        await asyncio.sleep(0.001)
    opening.cancel()
    await asyncio.wait([opening])
    if not opening.cancelled():
        await opening.result().cancel()
        for one in opening.result().take(10):
            one.requeue()
    while await amqp.count(queue) != 30:
        await pause()
    await amqp.until_consumers(queue, 0)


async def test_lost_delivery_is_requeued_after_the_feed_ends(
    fed: Fed, amqp: Amqp, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = {b"3", b"5"}
    read = Channel._delivered

    def without_lost(self: Channel, *delivery: Any) -> None:
        if delivery[-1] not in lost:
            read(self, *delivery)

    monkeypatch.setattr(Channel, "_delivered", without_lost)
    feed = await fed.open(10)
    await feed.cancel()
    feed.leave()
    ack_all(feed.take(10))
    while await amqp.count(queue) != 20 + len(lost):
        await pause()
