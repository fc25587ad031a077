"""Tests that messages with their delay in a header survive an outage of Redis, and `kill -9` of the bridge.

`--full-size` runs them with 10,000 messages, and without Redis for 30 s.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aio_pika
import pytest

from tests.fault.api import now_ms
from tests.fault.stage import Stage, killed, started
from tests.forked_bridge import ForkedBridge
from tests.waiting import pause

DELAY_MS = 2_000
FIRST = "first-0"  # makes the topic


@pytest.fixture
def full_size(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--full-size"))


class Publisher:
    """Publishes to one topic with confirms, and notes when. `due_ms`: by message id, at the earliest."""

    def __init__(self, channel: aio_pika.abc.AbstractChannel, topic: str, delay_ms: int, prefix: str) -> None:
        self._channel = channel
        self._prefix = prefix
        self._topic = topic
        self._delay_ms = delay_ms
        self.due_ms: dict[str, int] = {}

    async def publish(self, count: int, *, per_s: float) -> None:
        entry = await self._channel.get_exchange("delay.in", ensure=False)
        confirming: list[asyncio.Task[object]] = []
        for _ in range(count):
            message_id = f"{self._prefix}-{len(self.due_ms)}"
            message = aio_pika.Message(
                message_id.encode(),
                message_id=message_id,
                headers={"x-delay": self._delay_ms},
                delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            )
            self.due_ms[message_id] = now_ms() + self._delay_ms
            confirming.append(asyncio.create_task(entry.publish(message, self._topic, timeout=60)))
            await pause(1 / per_s)
        await asyncio.gather(*confirming)


@asynccontextmanager
async def publishing(stage: Stage, topic: str, *, delay_ms: int, prefix: str = "m") -> AsyncIterator[Publisher]:
    async with (
        await aio_pika.connect(stage.rabbit.amqp_url) as connection,
        connection.channel(on_return_raises=True) as channel,
    ):
        yield Publisher(channel, topic, delay_ms, prefix)


async def consumed(stage: Stage, topic: str, publisher: Publisher) -> tuple[Counter[str], list[str]]:
    """Consumes until all have come, and then until a marker that was published behind them. Returns how often each
    came, and which came early. The message that made the topic may come again: a kill can undo its acknowledgement."""
    came: Counter[str] = Counter()
    early: list[str] = []
    async with await aio_pika.connect(stage.rabbit.amqp_url) as connection, connection.channel() as channel:
        await channel.set_qos(prefetch_count=500)
        queue = await channel.get_queue(f"ready.{topic}", ensure=False)
        arrivals: asyncio.Queue[aio_pika.abc.AbstractIncomingMessage] = asyncio.Queue()
        await queue.consume(arrivals.put)
        async with asyncio.timeout(180):
            while len(came) < len(publisher.due_ms):
                message = await arrivals.get()
                name = message.body.decode()
                await message.ack()
                if name == FIRST:
                    continue
                came[name] += 1
                if now_ms() < publisher.due_ms[name]:
                    early.append(name)
            await publisher.publish(1, per_s=100)
            last = f"m-{len(publisher.due_ms) - 1}"
            while last not in came:
                message = await arrivals.get()
                came[message.body.decode()] += 1
                await message.ack()
    return came, early


async def made(bridge: ForkedBridge, stage: Stage, topic: str) -> None:
    """Starts the bridge, and sends a first message, so that the topic's queues are old enough."""
    await started(bridge)
    async with publishing(stage, topic, delay_ms=0, prefix="first") as first:
        await first.publish(1, per_s=100)
        async with await aio_pika.connect(stage.rabbit.amqp_url) as connection, connection.channel() as channel:
            while True:
                try:
                    queue = await channel.declare_queue(f"ready.{topic}", passive=True)
                    # A get of a queue that is just being declared ends the connection.
                    if queue.declaration_result.message_count:
                        message = await queue.get(no_ack=True)
                        break
                except aio_pika.exceptions.ChannelNotFoundEntity:
                    await channel.reopen()
                await pause()
        assert message.body.decode() == FIRST


@pytest.mark.timeout(300)
async def test_messages_are_late_and_not_lost_while_redis_is_away(stage: Stage, full_size: bool) -> None:
    count, per_s, outage_s = (10_000, 400.0, 30.0) if full_size else (160, 80.0, 1.0)
    bridge = stage.bridge()
    await made(bridge, stage, "away")
    async with publishing(stage, "away", delay_ms=DELAY_MS) as publisher:
        sending = asyncio.create_task(publisher.publish(count, per_s=per_s))
        while len(publisher.due_ms) < count // 4:
            await pause()
        await killed(stage.redis)
        await pause(outage_s)
        await started(stage.redis)
        await sending
        came, early = await consumed(stage, "away", publisher)
    assert early == []
    assert came.keys() == publisher.due_ms.keys()
    print(f"{count} messages, {outage_s:g} s without Redis: 0 lost, 0 early, {came.total() - len(came)} twice")


@pytest.mark.timeout(300)
async def test_kill_9_of_the_bridge_loses_and_repeats_no_message(stage: Stage, full_size: bool) -> None:
    count, per_s, kills = (10_000, 1_000.0, 5) if full_size else (160, 160.0, 1)
    delay_ms = 45_000 if full_size else 8_000  # all are accepted before the first is due
    bridge = stage.bridge()
    await made(bridge, stage, "killed")
    async with publishing(stage, "killed", delay_ms=delay_ms) as publisher:
        sending = asyncio.create_task(publisher.publish(count, per_s=per_s))
        for kill in range(kills):
            while len(publisher.due_ms) < count * (kill + 1) // (kills + 1):
                await pause()
            await killed(bridge)
            await started(bridge)
        await sending
        came, early = await consumed(stage, "killed", publisher)
    assert early == []
    assert came.keys() == publisher.due_ms.keys()
    assert {name: times for name, times in came.items() if times > 1} == {}
    print(f"{count} messages, {kills} kills: 0 lost, 0 early, 0 twice")
