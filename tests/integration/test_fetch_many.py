"""Tests that many messages are fetched at once: in order, no more than wanted, and without a loss."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import aio_pika
import pytest
import pytest_asyncio

from bridge.broker.client.channel import Channel
from bridge.broker.client.connection import BrokerConnection
from bridge.broker.client.transport import Transport
from bridge.broker.ready import fetch_many
from bridge.broker.ready.fetch_many import Fetcher
from bridge.broker.ready.taken import Taken, ack_all
from bridge.broker.ready.taker import Taker
from bridge.local.rabbitmq import RabbitNode
from bridge.model.breaker import Breaker
from bridge.model.errors import BrokerUnavailable, QueueMissing
from tests.integration.amqp import Amqp
from tests.integration.topic import Topic
from tests.proxy import Proxy
from tests.waiting import pause

MANY = 40  # far more than are taken by single gets


@pytest_asyncio.fixture
async def queue(amqp: Amqp) -> AsyncIterator[str]:
    """A quorum queue with the messages 0 to 39."""
    name = f"gathering-{uuid4().hex[:12]}"
    async with amqp.connection.channel(on_return_raises=True) as channel:
        await channel.declare_queue(name, durable=True, arguments={"x-queue-type": "quorum"})
        messages = [
            aio_pika.Message(
                b"%d" % at, headers={"name": f"number-{at}"}, delivery_mode=aio_pika.DeliveryMode.PERSISTENT
            )
            for at in range(MANY)
        ]
        await asyncio.gather(*(channel.default_exchange.publish(one, name) for one in messages))
    yield name
    await amqp.delete_queue(name)


def numbers(taken: list[Taken]) -> list[int]:
    return [int(one.message.body) for one in taken]


async def left(amqp: Amqp, queue: str) -> list[tuple[int, bool]]:
    """Returns the numbers of the messages in the queue, and whether each was delivered before."""
    found: list[tuple[int, bool]] = []
    async with amqp.connection.channel() as channel:
        source = await channel.get_queue(queue)
        while (message := await source.get(fail=False)) is not None:
            found.append((int(message.body), bool(message.redelivered)))
    return found


async def test_fetch_is_in_order_and_delivers_no_more_than_wanted(
    connection: BrokerConnection, amqp: Amqp, queue: str
) -> None:
    taken = await Taker(connection, timeout_ms=10_000).take(queue, 30)

    assert numbers(taken) == list(range(30))
    assert await left(amqp, queue) == [(at, False) for at in range(30, MANY)]


async def test_take_returns_as_many_as_are_wanted_and_ready(connection: BrokerConnection, queue: str) -> None:
    taker, rest = Taker(connection, timeout_ms=10_000), list(range(MANY))
    # By single gets, the most of them, by a consumer, and more than there are.
    for limit in (1, 2, 9, 10, 500):
        taken = sorted(numbers(await taker.take(queue, limit)))
        assert taken == rest[:limit]
        del rest[:limit]


async def test_concurrent_takes_share_the_queue(connection: BrokerConnection, queue: str) -> None:
    taker = Taker(connection, timeout_ms=10_000)

    shares = await asyncio.gather(*(taker.take(queue, 30) for _ in range(3)))

    assert sorted(number for share in shares for number in numbers(share)) == list(range(MANY))


async def test_take_cancelled_after_its_answer_arrived_requeues_the_message(
    connection: BrokerConnection, amqp: Amqp, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived = asyncio.Event()
    read = Transport.buffer_updated

    def noticed(transport: Transport, nbytes: int) -> None:
        has_it = b"number-" in bytes(transport._buffer[:nbytes])
        read(transport, nbytes)
        if has_it:
            arrived.set()

    taker = Taker(connection, timeout_ms=10_000)
    monkeypatch.setattr(Transport, "buffer_updated", noticed)
    for turns in range(12):  # RabbitMQ 4 drops a message that was requeued 20 times
        arrived.clear()
        taking = asyncio.create_task(taker.take(queue, 1))
        await arrived.wait()
        for _ in range(turns):
            await asyncio.sleep(0)
        taking.cancel()
        await asyncio.wait([taking])
        if not taking.cancelled():
            taking.result()[0].requeue()

        while await amqp.count(queue) != MANY:
            await pause()


async def test_message_that_arrives_too_late_is_ready_again(rabbit: RabbitNode, amqp: Amqp, queue: str) -> None:
    big = bytes(4 * 1024 * 1024)
    async with Proxy(rabbit.amqp_url) as proxy:
        slow = BrokerConnection([proxy.url], purpose="test", timeout_ms=10_000, check=lambda _: None, breaker=Breaker())
        ack_all(await Taker(slow, timeout_ms=10_000).take(queue, MANY))
        taker = Taker(slow, timeout_ms=1_000)
        await amqp.publish("", queue, big)
        # The answer begins in time. Its body arrives in 64 chunks or more.
        proxy.latency_s = 0.05
        with pytest.raises(BrokerUnavailable):
            await taker.take(queue, 1)
        proxy.latency_s = 0.0

        taken: list[Taken] = []
        while not taken:
            await pause()
            with suppress(BrokerUnavailable):  # the breaker, for a second
                taken = await taker.take(queue, 1)
        assert taken[0].message.body == big
        await slow.drop()


async def test_fetch_channel_is_used_again_and_acks_fetch_nothing(
    connection: BrokerConnection, amqp: Amqp, queue: str
) -> None:
    taker = Taker(connection, timeout_ms=10_000)
    for start in (0, 12):
        taken = await taker.take(queue, 12)
        assert numbers(taken) == list(range(start, start + 12))
        for one in taken:
            one.ack()

    assert numbers(await taker.take(queue, 10)) == list(range(24, 34))
    assert await left(amqp, queue) == [(at, False) for at in range(34, MANY)]


async def test_fetch_does_not_wait_for_more_than_is_ready(connection: BrokerConnection, amqp: Amqp, queue: str) -> None:
    fetched = await Fetcher(connection, timeout_ms=40_000).fetch(queue, 200)

    assert [int(one.body) for one in fetched] == list(range(MANY))
    await amqp.publish("", queue, b"40")
    assert await left(amqp, queue) == [(40, False)]


async def test_cancelled_fetch_requeues_its_deliveries(
    connection: BrokerConnection, amqp: Amqp, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_many, "_STILL_S", 40.0)  # it waits for those that are not there
    taking = asyncio.create_task(Fetcher(connection, timeout_ms=40_000).fetch(queue, 200))
    while await amqp.count(queue):
        await pause()
    taking.cancel()
    await asyncio.wait([taking])

    assert taking.cancelled()
    while await amqp.count(queue) != MANY:
        await pause()
    assert sorted(number for number, _ in await left(amqp, queue)) == list(range(MANY))


async def test_lost_deliveries_are_requeued_once_the_others_are_acknowledged(
    connection: BrokerConnection, amqp: Amqp, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = {b"3", b"20", b"39"}
    read = Channel._delivered

    def without_lost(self: Channel, *delivery: Any) -> None:
        if delivery[-1] not in lost:
            read(self, *delivery)

    monkeypatch.setattr(Channel, "_delivered", without_lost)
    taken = await Taker(connection, timeout_ms=10_000).take(queue, MANY)
    assert numbers(taken) == [at for at in range(MANY) if str(at).encode() not in lost]
    ack_all(taken)

    while await amqp.count(queue) != len(lost):
        await pause()
    assert sorted(number for number, _ in await left(amqp, queue)) == [3, 20, 39]


async def test_fetch_from_a_missing_queue_is_an_error(connection: BrokerConnection) -> None:
    with pytest.raises(QueueMissing):
        await Fetcher(connection, timeout_ms=10_000).fetch(f"gathering-{uuid4().hex[:12]}", 20)


async def test_pull_of_many_over_http_is_in_queue_order(topic: Topic) -> None:
    sent = [(await topic.send())["id"] for _ in range(12)]

    assert [message["id"] for message in await topic.pull(max=100)] == sent
