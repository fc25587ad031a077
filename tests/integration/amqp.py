"""Talks to the broker as any AMQP client does, without the bridge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aio_pika
from aio_pika.abc import AbstractConnection, AbstractIncomingMessage, HeadersType
from aiormq.exceptions import ChannelNotFoundEntity

from tests.waiting import pause

Arrivals = asyncio.Queue[AbstractIncomingMessage]


class Amqp:
    """One connection. Each call opens a channel, so that no call closes another's."""

    def __init__(self, connection: AbstractConnection) -> None:
        self.connection = connection

    async def publish(
        self, exchange: str, key: str, body: bytes = b'"abc"', headers: HeadersType | None = None, **properties: Any
    ) -> None:
        """Publishes a persistent message. Returns once it is confirmed; raises if it is unroutable."""
        message = aio_pika.Message(body, headers=headers, delivery_mode=aio_pika.DeliveryMode.PERSISTENT, **properties)
        async with self.connection.channel(on_return_raises=True) as channel:
            entry = await channel.get_exchange(exchange, ensure=False)
            await entry.publish(message, key, mandatory=True, timeout=10)

    @asynccontextmanager
    async def consume(self, queue: str, *, prefetch: int = 10) -> AsyncIterator[Arrivals]:
        """Yields the deliveries of the queue. On exit unsettled messages are requeued, as after a crash."""
        arrivals: Arrivals = asyncio.Queue()
        async with self.connection.channel() as channel:
            await channel.set_qos(prefetch_count=prefetch)
            source = await channel.get_queue(queue, ensure=False)
            await source.consume(arrivals.put)
            yield arrivals

    async def take(self, queue: str) -> AbstractIncomingMessage:
        """Waits for the next message of the queue and acknowledges it."""
        async with self.consume(queue, prefetch=1) as arrivals:
            message = await arrivals.get()
            await message.ack()
            return message

    async def put_aside(self, reason: str) -> AbstractIncomingMessage:
        """Waits for the next message of `delay.refused` with this reason. Acknowledges this message and all before
        it."""
        async with self.consume("delay.refused", prefetch=1) as arrivals:
            while True:
                message = await arrivals.get()
                await message.ack()
                if reason in header(message, "x-delay-reason"):
                    return message

    async def get(self, queue: str) -> AbstractIncomingMessage | None:
        """The message now at the head of the queue, acknowledged. None when the queue is empty."""
        async with self.connection.channel() as channel:
            source = await channel.get_queue(queue, ensure=False)
            message = await source.get(fail=False)
            if message is not None:
                await message.ack()
            return message

    async def count(self, queue: str) -> int | None:
        """Returns how many messages the queue has ready; None if it does not exist."""
        channel = await self.connection.channel()
        try:
            declared = await channel.declare_queue(queue, passive=True)
        except ChannelNotFoundEntity:
            return None
        else:
            return declared.declaration_result.message_count
        finally:
            await channel.close()

    async def until_count(self, queue: str, count: int) -> None:
        """Asks the broker until the queue has `count` messages ready. The test's time limit ends the wait."""
        while await self.count(queue) != count:
            await pause()

    async def until_consumers(self, queue: str, count: int) -> None:
        """Asks the broker until the queue has `count` consumers. The test's time limit ends the wait."""
        async with self.connection.channel() as channel:
            while True:
                declared = await channel.declare_queue(queue, passive=True)
                if declared.declaration_result.consumer_count == count:
                    return

    async def delete_queue(self, queue: str) -> None:
        async with self.connection.channel() as channel:
            await channel.queue_delete(queue)


def header(message: AbstractIncomingMessage, name: str) -> Any:
    headers: Mapping[str, Any] = message.headers
    return headers[name]
