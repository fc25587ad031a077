"""Taking many messages of one queue at once, in its order, and no more than are wanted.

A consumer that may hold just so many gets them in one go, where each `basic.get` is a round trip through the queue's
log. It is cancelled before any of them is acknowledged, so that the broker hands out none for nothing: what is handed
out and put back counts as a delivery.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from aiormq import Channel
from pamqp import commands as spec

from bridge.broker.client.acknowledger import Acknowledger
from bridge.broker.client.connection import BrokerConnection, translated
from bridge.broker.client.delivery import Delivery
from bridge.model.errors import BrokerUnavailable

_AT_ONCE = 32  # channels
_STILL_S = 0.02  # nothing for so long: others may have taken the rest


@dataclass(slots=True)
class _Place:
    """A channel with one consumer at a time, and how many messages its next one may hold."""

    channel: Channel
    prefetch: int = 0
    acknowledging: Acknowledger = field(init=False)

    def __post_init__(self) -> None:
        self.acknowledging = Acknowledger(self.channel)


@dataclass(slots=True)
class _Consumer:
    wanted: int
    acknowledging: Acknowledger
    tag: str = ""
    arrived: list[Delivery] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)  # all are there, or the queue is gone

    def received(self, delivery: Delivery) -> None:
        delivery.acknowledging = self.acknowledging
        self.acknowledging.delivered(delivery.delivery_tag)
        self.arrived.append(delivery)
        if len(self.arrived) == self.wanted:
            self.ended.set()

    def cancelled(self, frame: spec.Basic.Cancel) -> None:
        if frame.consumer_tag == self.tag:
            self.ended.set()


class Fetcher:
    """Gathers on channels of one link: as many as are busy at once, and used again."""

    def __init__(self, link: BrokerConnection, *, timeout_ms: int) -> None:
        self._link = link
        self._timeout_s = timeout_ms / 1_000
        self._free: list[_Place] = []
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def gather(self, queue: str, wanted: int) -> list[Delivery]:
        """Up to so many of those that stand in the queue, oldest first. What is not returned is back in the queue.

        Raises:
            BrokerUnavailable
            QueueMissing
        """
        async with translated(self._timeout_s):
            await self._turns.acquire()
        try:
            place = await self._place()
            return await self._gather(place, queue, _Consumer(wanted, place.acknowledging))
        finally:
            self._turns.release()

    async def _gather(self, place: _Place, queue: str, consumer: _Consumer) -> list[Delivery]:
        place.channel.on_consumer_cancel_callbacks.add(consumer.cancelled)
        try:
            async with self._link.asking(self._timeout_s):
                await self._consume(place, queue, consumer)
        except BaseException:
            await self._abandon(place, consumer)
            raise
        finally:
            place.channel.on_consumer_cancel_callbacks.discard(consumer.cancelled)
        if len(consumer.arrived) == consumer.wanted:
            self._free.append(place)
        else:
            place.acknowledging.retire(self._link.close)
        return consumer.arrived

    async def _consume(self, place: _Place, queue: str, consumer: _Consumer) -> None:
        channel, intake = place.channel, self._link.intake(place.channel)
        if place.prefetch != consumer.wanted:
            await channel.basic_qos(prefetch_count=consumer.wanted)
            place.prefetch = consumer.wanted
        consumer.tag = await intake.consume(channel, queue, consumer.received)
        arrived = 0
        while not consumer.ended.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_STILL_S):
                    await consumer.ended.wait()
            still, arrived = len(consumer.arrived) == arrived, len(consumer.arrived)
            # What is handed out already comes before the answer.
            if still and not (await channel.queue_declare(queue, passive=True)).message_count:
                break
        if consumer.tag in channel.consumers:
            # What is still on its way comes before the answer, or is put back by the broker.
            await channel.basic_cancel(consumer.tag)
        intake.forget(consumer.tag)

    async def _place(self) -> _Place:
        while self._free:
            place = self._free.pop()
            if not place.channel.is_closed:
                return place
        return _Place(await self._link.channel())

    async def _abandon(self, place: _Place, consumer: _Consumer) -> None:
        """Puts back what has arrived, and whatever else the consumer would be given."""
        with suppress(BrokerUnavailable):
            self._link.intake(place.channel).forget(consumer.tag)
        await self._link.close(place.channel)
