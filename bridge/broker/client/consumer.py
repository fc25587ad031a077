"""A queue's deliveries over one channel, for as long as that lasts, and their acknowledgements."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiormq import Channel

from bridge.broker.client.acknowledger import Acknowledger
from bridge.broker.client.connection import BrokerConnection, Refused, translated
from bridge.broker.client.delivery import Delivery
from bridge.broker.client.fast_reader import Received
from bridge.model.errors import BrokerUnavailable

__all__ = ["Consumer", "Delivery"]

_STEP_S = 5.0
_QUIET_S = 5.0  # a consumer that heard nothing for so long asks whether the node still has its queue


class Consumer:
    """Calls `received` for each delivery, with at most `prefetch` of them unacknowledged."""

    def __init__(self, link: BrokerConnection, channel: Channel, queue: str, received: Received) -> None:
        self._link = link
        self._channel = channel
        self._intake = link.intake(channel)
        self._queue = queue
        self._received = received
        self._generation = link.generation
        self._acknowledging = Acknowledger(channel)
        self._tag = ""
        self._quiet = True

    @classmethod
    async def open(cls, link: BrokerConnection, queue: str, *, prefetch: int, received: Received) -> Consumer:
        """
        Raises:
            BrokerUnavailable
        """
        channel = await link.channel()
        feed = cls(link, channel, queue, received)
        async with link.asking(_STEP_S):
            await channel.basic_qos(prefetch_count=prefetch)
            await feed._consume()
        return feed

    async def until_closed(self) -> None:
        """Returns when the channel is gone, the broker has cancelled the consumer (its queue was deleted), or a node of
        several has lost the queue's majority."""
        closing = asyncio.ensure_future(self._channel.closing)
        cancelled = asyncio.get_running_loop().create_future()
        self._channel.on_consumer_cancel_callbacks.add(lambda _: cancelled.cancel())
        while not (closing.done() or cancelled.done()):
            self._quiet = True
            await asyncio.wait((closing, cancelled), timeout=_QUIET_S, return_when=asyncio.FIRST_COMPLETED)
            if self._quiet and self._link.several and not (closing.done() or cancelled.done()):
                try:
                    await self._consume_anew()
                except Refused:
                    pass  # it is asked again
                except BrokerUnavailable:
                    return

    async def ack(self, tags: Iterable[int]) -> None:
        """Acknowledges deliveries, many with one frame where all before them are done too.

        Raises:
            BrokerUnavailable: the channel is gone, and they come again.
        """
        await self._acknowledging.ack(tags)

    async def stop(self) -> None:
        """No more deliveries.

        Raises:
            BrokerUnavailable
        """
        async with translated(_STEP_S):
            await self._channel.basic_cancel(self._tag)

    async def close(self) -> None:
        """Hands back what is not acknowledged; nothing is received from here on.

        Raises:
            BrokerUnavailable
        """
        self._intake.forget(self._tag)
        if self._channel.is_closed:
            # By RabbitMQ. aiormq may not have told it that it knows, and then what the channel holds is kept from all.
            await self._link.drop(self._generation)
            return
        async with translated(_STEP_S):
            await self._channel.close()

    async def _consume_anew(self) -> None:
        """A node that was cut off from the others keeps its consumers, and has nothing for them. It takes no new one,
        and is left then."""
        last = self._tag
        async with self._link.asking(_STEP_S):
            await self._consume()
            await self._channel.basic_cancel(last)
        self._intake.forget(last)

    async def _consume(self) -> None:
        self._tag = await self._intake.consume(self._channel, self._queue, self._delivered)

    def _delivered(self, delivery: Delivery) -> None:
        self._quiet = False
        self._acknowledging.delivered(delivery.delivery_tag)
        self._received(delivery)
