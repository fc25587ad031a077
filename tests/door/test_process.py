"""Tests the command `delaybridge door` as a process that is killed, and one that is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import aio_pika
import pytest
from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import AMQPError

from bridge.local.door import DoorProcess
from bridge.local.rabbitmq import RabbitNode
from tests.door.conftest import Migrated
from tests.waiting import pause

MESSAGES = 300
KILLS = 2


@pytest.fixture
def door(rabbit: RabbitNode, local_dir: Path) -> Iterator[DoorProcess]:
    door = DoorProcess(local_dir / "door", {"BRIDGE_AMQP_URL": rabbit.amqp_url})
    door.start()
    yield door
    door.kill()


class Sender:
    """A client that connects again after each loss, and sends a message until it is confirmed."""

    def __init__(self, url: str, exchange: str) -> None:
        self._url = url
        self._exchange = exchange
        self.confirmed: list[str] = []

    async def run(self) -> None:
        while len(self.confirmed) < MESSAGES:
            with suppress(AMQPError, OSError, RuntimeError, asyncio.CancelledError):
                async with await aio_pika.connect(self._url, timeout=20) as connection:
                    exchange = await (await connection.channel()).declare_exchange(
                        self._exchange, "x-delayed-message", durable=True, arguments={"x-delayed-type": "topic"}
                    )
                    while len(self.confirmed) < MESSAGES:
                        await self._send(exchange, f"{len(self.confirmed)}")
            await pause()

    async def _send(self, exchange: aio_pika.abc.AbstractExchange, message_id: str) -> None:
        message = Message(
            b"x" * 2_000,
            message_id=message_id,
            headers={"x-delay": 60_000},
            delivery_mode=DeliveryMode.PERSISTENT,
        )
        await exchange.publish(message, "a", timeout=20)
        self.confirmed.append(message_id)


async def test_confirmed_messages_survive_a_killed_door(
    door: DoorProcess, rabbit: RabbitNode, migrated: Migrated
) -> None:
    sender = Sender(door.at(rabbit.amqp_url), migrated.exchange)
    sending = asyncio.create_task(sender.run())
    for kill in range(1, KILLS + 1):
        while len(sender.confirmed) < kill * MESSAGES // (KILLS + 1):
            assert not sending.done()
            await pause(0.01)
        await asyncio.to_thread(door.kill)
        await asyncio.to_thread(door.start)
    await sending
    found = set()
    while (message := await migrated.ingress.get(no_ack=True, fail=False)) is not None:
        found.add(message.message_id)
    assert set(sender.confirmed) <= found
    assert await migrated.queue.get(fail=False) is None


async def test_stopped_door_says_goodbye_and_ends_with_0(
    door: DoorProcess, rabbit: RabbitNode, migrated: Migrated, direct: AbstractChannel
) -> None:
    connection = await aio_pika.connect(door.at(rabbit.amqp_url))
    exchange = await (await connection.channel()).declare_exchange(
        migrated.exchange, "x-delayed-message", durable=True, arguments={"x-delayed-type": "topic"}
    )
    await exchange.publish(Message(b"", headers={"x-delay": 60_000}), "a")
    status, metrics = await asyncio.to_thread(door.ask, "/metrics")
    lines = metrics.splitlines()
    assert status == 200
    assert "delaybridge_door_connections 1.0" in lines
    assert "delaybridge_door_delayed_total 1.0" in lines
    assert "delaybridge_door_made_passive_total 1.0" in lines
    assert door.ask("/health/live") == (200, "live\n")
    assert door.ask("/elsewhere")[0] == 404
    door.ask_to_stop()
    assert connection.transport is not None
    with pytest.raises(AMQPError, match="CONNECTION_FORCED"):
        await connection.transport.connection.closing
    process = door._process
    assert process is not None
    assert await asyncio.to_thread(process.wait, 20) == 0
