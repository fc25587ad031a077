"""Publishes and consumes over AMQP without a bridge, and connects again when a connection is lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, HeadersType

from bridge.model.errors import BrokerUnavailable
from tests.torture.lost import translated

_CONNECT_TIMEOUT_S, _CONFIRM_TIMEOUT_S = 5.0, 10.0
_PAUSE_S = 0.2
_PREFETCH = 100
_WHEEL, _INGRESS, _ACKS = "delay", "delay.in", "delay.done"
_CREATED = "x-delay-created"


class Publisher:
    """Publishes as an AMQP client. Each method returns whether RabbitMQ confirmed the message."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._connecting = asyncio.Lock()

    async def publish(self, topic: str, message_id: str, delay_ms: int) -> bool:
        """Publishes into the wheel by routing key, with a delay under ten seconds, in whole tenths."""
        seconds, tenths = divmod(delay_ms // 100, 10)
        return await self._confirmed(_WHEEL, _message(message_id), f"0.0.0.0.0.{seconds}.{tenths}.{topic}")

    async def submit(self, topic: str, message_id: str, delay_ms: int) -> bool:
        """Publishes with the delay in a header."""
        return await self._confirmed(_INGRESS, _message(message_id, {"x-delay": delay_ms}), topic)

    async def record_ack(self, topic: str, message_id: str, created_ms: int | None) -> bool:
        """Publishes that a consumer has finished the message. `created_ms`: as its delivery says; None: it does not."""
        ack = aio_pika.Message(
            b"",
            message_id=message_id,
            headers=None if created_ms is None else {_CREATED: created_ms},
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        )
        return await self._confirmed(_ACKS, ack, topic)

    async def _confirmed(self, exchange: str, message: aio_pika.Message, routing_key: str) -> bool:
        channel: AbstractChannel | None = None
        try:
            async with translated():
                channel = await self._connected()
                entry = await channel.get_exchange(exchange, ensure=False)
                await entry.publish(message, routing_key, timeout=_CONFIRM_TIMEOUT_S)
        except BrokerUnavailable:
            if channel is not None and channel is self._channel:
                await self.close()
            return False
        return True

    async def close(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            with suppress(BrokerUnavailable):
                async with translated(_CONNECT_TIMEOUT_S):
                    await connection.close()

    async def _connected(self) -> AbstractChannel:
        async with self._connecting:
            if self._channel is None:
                await self.close()  # a connection that was lost before its channel was open
                self._connection = await aio_pika.connect(_any(self._url), timeout=_CONNECT_TIMEOUT_S)
                self._channel = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
            return self._channel


def _message(message_id: str, headers: HeadersType | None = None) -> aio_pika.Message:
    return aio_pika.Message(
        f'"{message_id}"'.encode(),
        message_id=message_id,
        content_type="application/json",
        headers=headers,
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
    )


async def consume(url: str, queue_name: str, received: Callable[[AbstractIncomingMessage], Awaitable[None]]) -> None:
    """Consumes for ever. `received` settles each message; RabbitMQ redelivers a message that it can't settle."""

    async def settled(message: AbstractIncomingMessage) -> None:
        with suppress(BrokerUnavailable):
            async with translated():
                await received(message)

    while True:
        with suppress(BrokerUnavailable):
            async with translated(), await aio_pika.connect(_any(url), timeout=_CONNECT_TIMEOUT_S) as connection:
                gone = asyncio.Event()
                connection.close_callbacks.add(lambda *_, gone=gone: gone.set())
                channel = await connection.channel()
                channel.close_callbacks.add(lambda *_, gone=gone: gone.set())  # it has kept a delivery for too long
                await channel.set_qos(prefetch_count=_PREFETCH)
                queue = await channel.get_queue(queue_name, ensure=False)
                await queue.consume(settled)
                await gone.wait()
        await asyncio.sleep(_PAUSE_S)


def created_ms(message: AbstractIncomingMessage) -> int | None:
    """Returns when the delivered message was created; None: RabbitMQ alone delivered an AMQP client's own message."""
    created = message.headers.get(_CREATED)
    return None if created is None else int(str(created))


def _any(urls: str) -> str:
    """One of the nodes' URLs, which commas part."""
    return random.choice(urls.split(","))
