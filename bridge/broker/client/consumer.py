"""Consumes a queue until its channel ends, and acknowledges its deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from bridge.broker.client.acknowledger import PASSED_ON_AFTER_S, Acknowledger
from bridge.broker.client.channel import Channel, Received, new_tag
from bridge.broker.client.connection import BreakerOpen, BrokerConnection, translated
from bridge.broker.client.delivery import Delivery
from bridge.model.errors import BrokerUnavailable

__all__ = ["Consumer", "Delivery"]

_STEP_S = 5.0
_SILENT_S = 5.0  # a consumer without a delivery for so long asks whether the node still has its queue
_NUMBERED: Final = 1 << 48  # a channel has fewer deliveries


class _ConsumerChannel:
    """One channel of a `Consumer`. `base`: a number that is added to RabbitMQ's delivery tags, so that the tags of all
    channels of the consumer differ."""

    def __init__(self, raw: Channel, number: int) -> None:
        self.raw = raw
        self.base = number * _NUMBERED
        self.tag = new_tag()
        self.cancelled: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def acknowledger(self) -> Acknowledger:
        return self.raw.acknowledger

    @property
    def ended(self) -> bool:
        return self.raw.ended.done() or self.cancelled.done()

    def own(self, tags: Iterable[int]) -> list[int]:
        """Returns RabbitMQ's delivery tags for those of the consumer's tags that belong to this channel."""
        return [tag - self.base for tag in tags if self.base < tag < self.base + _NUMBERED]

    async def close(self) -> None:
        """Closes the channel.

        Raises:
            BrokerUnavailable: RabbitMQ does not answer.
        """
        self.raw.forget(self.tag)
        async with translated(_STEP_S):
            await self.raw.close()


class Consumer:
    """Calls `received` for each delivery, with at most `prefetch` unacknowledged deliveries on a channel.

    A consumer may have several channels, and consumes on the latest one. An older channel closes when its deliveries
    are acknowledged or requeued. All channels together have at most one and a half times `prefetch` unacknowledged
    deliveries.
    """

    def __init__(self, connection: BrokerConnection, queue: str, *, prefetch: int, received: Received) -> None:
        self._connection = connection
        self._queue = queue
        self._prefetch = prefetch
        self._received = received
        self._silent = True
        self._opened = 0
        self._channels: list[_ConsumerChannel] = []

    @classmethod
    async def open(cls, connection: BrokerConnection, queue: str, *, prefetch: int, received: Received) -> Consumer:
        """Opens a channel and consumes the queue on it. `received`: called with each delivery.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
            QueueMissing: the queue does not exist.
        """
        consumer = cls(connection, queue, prefetch=prefetch, received=received)
        await consumer._consume(await connection.channel())
        return consumer

    async def until_closed(self) -> None:
        """Waits until no more deliveries can come.

        Then the channel has closed, or RabbitMQ has cancelled the consumer because its queue was deleted. Or the bridge
        is connected to one of several nodes, and this node accepts no new consumer of the queue.
        """
        while not (channel := self._channels[-1]).ended:
            self._silent = True
            ends = (channel.raw.ended, channel.cancelled)
            await asyncio.wait(ends, timeout=_SILENT_S, return_when=asyncio.FIRST_COMPLETED)
            if self._silent and self._connection.has_other_nodes and not channel.ended and not self._is_full:
                try:
                    await self._consume_again()
                except BreakerOpen:
                    pass  # the next round asks
                except BrokerUnavailable:
                    return

    def ack(self, tags: Iterable[int]) -> None:
        """Acknowledges deliveries. `tags`: the `delivery_tag` of each. One frame acknowledges many deliveries if all
        earlier deliveries are finished.

        Raises:
            BrokerUnavailable: the latest channel is closed, and RabbitMQ redelivers its messages.
        """
        tags = list(tags)
        *former, last = self._channels
        for channel in former:
            if own := channel.own(tags):
                with suppress(BrokerUnavailable):
                    channel.acknowledger.ack(own)
        last.acknowledger.ack(last.own(tags))

    async def until_acks_are_taken(self) -> None:
        """Returns once RabbitMQ has read the acks that were written before the call, and has passed them on to the
        queue. Takes over a second.

        Raises:
            BrokerUnavailable: the channel was closed or lost meanwhile.
        """
        for channel in tuple(self._channels):
            # RabbitMQ reads the frames of a channel in order, and answers this one, which changes nothing. The call has
            # no time limit: at the limit the channel would close, and RabbitMQ would redeliver all its messages.
            async with translated():
                await channel.raw.set_prefetch(self._prefetch)
        await asyncio.sleep(PASSED_ON_AFTER_S)

    async def stop(self) -> None:
        """Cancels the consumer, unless its channel is closed. Deliveries that have arrived can still be acknowledged.

        Raises:
            BrokerUnavailable: RabbitMQ does not answer.
        """
        channel = self._channels[-1]
        async with translated(_STEP_S):
            await channel.raw.cancel(channel.tag)

    async def close(self) -> None:
        """Closes the channels. RabbitMQ requeues all unacknowledged deliveries.

        Raises:
            BrokerUnavailable: RabbitMQ does not answer.
        """
        for channel in reversed(self._channels):
            await channel.close()

    @property
    def _is_full(self) -> bool:
        """Whether RabbitMQ may be silent because too many deliveries are unacknowledged: more than half of `prefetch`.

        A new channel would then bring up to `prefetch` more deliveries.
        """
        return 2 * sum(channel.acknowledger.held for channel in self._channels) > self._prefetch

    async def _consume_again(self) -> None:
        """Replaces the present consumer by a new one on a new channel.

        This tests the node. A node that is cut off from the other nodes keeps its consumers and delivers nothing, but
        accepts no new consumer.

        The old channel closes later, which brings back lost messages. If a queue's leader ends, messages on their way
        to the consumer may be lost. The next leader counts them as delivered (rabbitmq-server #15473). RabbitMQ finds
        the loss when it sends the consumer another message. Otherwise it requeues the lost messages when the channel
        closes.
        """
        former, raw = self._channels[-1], await self._connection.channel()
        try:
            await self._consume(raw, instead_of=former)
        except BreakerOpen:
            with suppress(BrokerUnavailable):
                async with translated(_STEP_S):
                    await raw.close()
            raise
        former.acknowledger.retire(partial(self._leave, former))

    async def _consume(self, raw: Channel, *, instead_of: _ConsumerChannel | None = None) -> None:
        channel = _ConsumerChannel(raw, self._opened)
        self._opened += 1
        async with self._connection.asking(_STEP_S):
            await raw.set_prefetch(self._prefetch)
            self._channels.append(channel)
            await raw.consume(self._queue, partial(self._delivered, channel), channel.tag, channel.cancelled.cancel)
            if instead_of is not None:
                await instead_of.raw.cancel(instead_of.tag)

    async def _leave(self, channel: _ConsumerChannel) -> None:
        with suppress(BrokerUnavailable):
            await channel.close()
        self._channels.remove(channel)

    def _delivered(self, channel: _ConsumerChannel, delivery: Delivery) -> None:
        self._silent = False
        delivery.delivery_tag += channel.base
        self._received(delivery)
