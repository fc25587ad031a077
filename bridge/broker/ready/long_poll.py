"""Waiting for a message, as a consumer that may hold one: the broker wakes it, whoever made the message ready."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from uuid import uuid4

from aiormq import Channel
from aiormq.abc import DeliveredMessage
from pamqp import commands as spec

from bridge.broker.client.acknowledger import Acknowledger
from bridge.broker.client.connection import BrokerConnection, translated
from bridge.broker.client.delivery import delivery_of
from bridge.broker.ready.taken import Taken
from bridge.model.errors import BridgeError, BrokerUnavailable, QueueMissing


class _Waiting:
    """A channel that long polls consume on, each with consumers of its own."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.acknowledging = Acknowledger(channel)
        self.polls = 0

    def taken(self, queue: str, message: DeliveredMessage) -> Taken:
        delivery = delivery_of(message)
        delivery.acknowledging = self.acknowledging
        self.acknowledging.delivered(delivery.delivery_tag)
        return Taken(queue, delivery)


class LongPoll:
    """Long polls over one link. The queues are seen to by the caller."""

    def __init__(self, link: BrokerConnection, *, timeout_ms: int) -> None:
        self._link = link
        self._timeout_s = timeout_ms / 1_000
        self._waiting: _Waiting | None = None
        self._opening = asyncio.Lock()

    async def wait(self, queues: Sequence[str], wait_ms: int, ending: asyncio.Event) -> list[Taken]:
        """Waits until a message stands in one of the queues and takes it; empty when none came in time, or before
        `ending` was set. Cancelled, it puts back what it was handed.

        More than one comes where several queues got one at the same moment.

        Raises:
            BrokerUnavailable
            QueueMissing: one of the queues does not stand, or no longer.
        """
        left = asyncio.Event()
        # A task of its own, which a caller that goes away can't end between a message's coming and its being put back.
        polling = asyncio.create_task(self._poll(queues, wait_ms, (ending, left)))
        try:
            return await asyncio.shield(polling)
        except asyncio.CancelledError:
            left.set()
            with suppress(BridgeError):
                for one in await polling:
                    await one.requeue()
            raise

    async def _poll(self, queues: Sequence[str], wait_ms: int, endings: Sequence[asyncio.Event]) -> list[Taken]:
        arrived = asyncio.Event()
        taken: list[Taken] = []
        tags: list[str] = []
        lost: list[str] = []
        waiting = await self._channel()
        channel = waiting.channel
        waiting.polls += 1

        def ended(frame: spec.Basic.Cancel) -> None:
            if frame.consumer_tag in tags:
                lost.append(frame.consumer_tag)
                arrived.set()

        async def received(queue: str, message: DeliveredMessage) -> None:
            taken.append(waiting.taken(queue, message))
            arrived.set()

        channel.on_consumer_cancel_callbacks.add(ended)
        try:
            async with self._link.asking(self._timeout_s):
                for queue in queues:
                    tag = f"poll-{uuid4().hex}"
                    tags.append(tag)
                    await channel.basic_consume(queue, partial(received, queue), consumer_tag=tag)
            await _first((arrived, *endings), channel, wait_ms / 1_000)
            await self._stop(channel, tags)
        except BaseException:
            await self._stop(channel, tags)
            for one in taken:
                await one.requeue()
            raise
        finally:
            channel.on_consumer_cancel_callbacks.discard(ended)
            self._left(waiting, empty=not taken)
        if lost and not taken:
            raise QueueMissing("a queue was deleted while it was waited on")
        return taken

    async def _channel(self) -> _Waiting:
        async with self._opening:
            if self._waiting is None or self._waiting.channel.is_closed:
                channel = await self._link.channel()
                async with translated(self._timeout_s):
                    # Holds for each consumer apart: none gets a second message before its first is acknowledged.
                    await channel.basic_qos(prefetch_count=1)
                self._waiting = _Waiting(channel)
            return self._waiting

    def _left(self, waiting: _Waiting, *, empty: bool) -> None:
        """A poll has ended. Where nothing came, something may have been lost on its way: the next polls are to have
        another channel, and the last of this one's retires it."""
        waiting.polls -= 1
        if empty and waiting is self._waiting:
            self._waiting = None
        if not waiting.polls and waiting is not self._waiting:
            waiting.acknowledging.retire(self._link.close)

    async def _stop(self, channel: Channel, tags: list[str]) -> None:
        """Ends the consumers; a message that was on its way is in the caller's hands when this returns."""
        with suppress(BrokerUnavailable):
            async with translated(self._timeout_s):
                for tag in tags:
                    if tag in channel.consumers:
                        await channel.basic_cancel(tag)


async def _first(events: Iterable[asyncio.Event], channel: Channel, wait_s: float) -> None:
    """Until one of the events is set, the time is over, or the channel is gone."""
    awaited = (*(asyncio.ensure_future(event.wait()) for event in events), asyncio.shield(channel.closing))
    try:
        await asyncio.wait(awaited, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in awaited:
            one.cancel()
    if channel.is_closed:
        raise BrokerUnavailable("RabbitMQ closed the channel a long poll waited on")
