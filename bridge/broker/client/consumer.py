"""Consumes a queue over one channel until that channel ends, and acknowledges its deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import aiormq

from bridge.broker.client.acknowledger import Acknowledger
from bridge.broker.client.connection import BreakerOpen, BrokerConnection, translated
from bridge.broker.client.delivery import Delivery
from bridge.broker.client.reader import Received
from bridge.model.errors import BrokerUnavailable
from topology.closing import close_channel

__all__ = ["Consumer", "Delivery"]

_STEP_S = 5.0
_SILENT_S = 5.0  # a consumer without a delivery for so long asks whether the node still has its queue


class Consumer:
    """Calls `received` for each delivery, with at most `prefetch` of them unacknowledged."""

    def __init__(self, connection: BrokerConnection, channel: aiormq.Channel, queue: str, received: Received) -> None:
        self._connection = connection
        self._channel = channel
        self._reader = connection.reader_of(channel)
        self._queue = queue
        self._received = received
        self._generation = connection.generation
        self._acknowledger = Acknowledger(channel)
        self._tag = ""
        self._silent = True

    @classmethod
    async def open(cls, connection: BrokerConnection, queue: str, *, prefetch: int, received: Received) -> Consumer:
        """Opens a channel and consumes the queue on it.

        Raises:
            BrokerUnavailable
        """
        channel = await connection.raw_channel()
        consumer = cls(connection, channel, queue, received)
        async with connection.asking(_STEP_S):
            await channel.basic_qos(prefetch_count=prefetch)
            await consumer._consume()
        return consumer

    async def until_closed(self) -> None:
        """Returns when no more deliveries can come.

        The channel has closed, or RabbitMQ has cancelled the consumer because its queue was deleted, or this node of
        several has lost the queue's majority.
        """
        closing = asyncio.ensure_future(self._channel.closing)
        cancelled = asyncio.get_running_loop().create_future()
        self._channel.on_consumer_cancel_callbacks.add(lambda _: cancelled.cancel())
        while not (closing.done() or cancelled.done()):
            self._silent = True
            await asyncio.wait((closing, cancelled), timeout=_SILENT_S, return_when=asyncio.FIRST_COMPLETED)
            if self._silent and self._connection.has_other_nodes and not (closing.done() or cancelled.done()):
                try:
                    await self._consume_again()
                except BreakerOpen:
                    pass  # the next round asks
                except BrokerUnavailable:
                    return

    async def ack(self, tags: Iterable[int]) -> None:
        """Acknowledges deliveries, many with one frame where all before them are finished too.

        Raises:
            BrokerUnavailable: the channel is closed, and RabbitMQ redelivers them.
        """
        await self._acknowledger.ack(tags)

    async def stop(self) -> None:
        """Cancels the consumer. Deliveries that it has can still be acknowledged.

        Raises:
            BrokerUnavailable
        """
        async with translated(_STEP_S):
            await self._channel.basic_cancel(self._tag)

    async def close(self) -> None:
        """Closes the channel. RabbitMQ requeues all unacknowledged deliveries.

        Raises:
            BrokerUnavailable
        """
        self._reader.forget(self._tag)
        if self._channel.is_closed:
            # RabbitMQ closed it. aiormq may not have answered, and then RabbitMQ keeps the channel's deliveries.
            await self._connection.drop(self._generation)
            return
        async with translated(_STEP_S):
            await close_channel(self._channel)

    async def _consume_again(self) -> None:
        """Asks the node for a new consumer in place of the present one.

        A node that is cut off from the others keeps its consumers and delivers nothing. It accepts no new consumer.
        """
        previous = self._tag
        async with self._connection.asking(_STEP_S):
            await self._consume()
            await self._channel.basic_cancel(previous)
        self._reader.forget(previous)

    async def _consume(self) -> None:
        self._tag = await self._reader.consume(self._channel, self._queue, self._delivered)

    def _delivered(self, delivery: Delivery) -> None:
        self._silent = False
        self._acknowledger.delivered(delivery.delivery_tag)
        self._received(delivery)
