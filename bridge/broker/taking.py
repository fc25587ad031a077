"""Taking messages out of queues, without burning delivery counts.

What is there is fetched with `basic.get`, or, where it is much, by a consumer that may hold as many as are wanted and
no more. A long poll waits as a consumer that may hold one message: the broker wakes it, whichever process or hop made
the message ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from uuid import uuid4

from aiormq import Channel
from aiormq.abc import ChannelFrame, DeliveredMessage
from aiormq.exceptions import AMQPError, ChannelInvalidStateError
from pamqp import commands as spec

from bridge.broker import frames
from bridge.broker.acknowledging import Acknowledging
from bridge.broker.deliveries import Delivery, delivery_of
from bridge.broker.gathering import Gatherer
from bridge.broker.link import Link, translated
from bridge.errors import BridgeError, BrokerUnavailable, QueueMissing
from bridge.frozen import value

_CHANNELS = 8  # one channel gets 900 messages a second, eight of them 3,900
_FEW = 8  # a turn of each channel; a consumer for more takes two or three round trips


@value(frozen=True, slots=True)
class Taken:
    """A delivery that is not acknowledged yet."""

    queue: str
    message: Delivery

    @property
    def properties(self) -> spec.Basic.Properties:
        return self.message.properties

    @property
    def live_for_ms(self) -> int:
        """Its time to live, 0 for none."""
        expiration = self.properties.expiration
        return int(expiration) if expiration and expiration.isdecimal() else 0

    async def ack(self) -> None:
        """Acknowledges it. On a lost channel nothing is to be done: the copy comes again, as a ghost."""
        await ack_all([self])

    async def requeue(self) -> None:
        """Puts it back where it was, which counts as one of the queue's deliveries."""
        delivery = self.message
        with suppress(AMQPError, ChannelInvalidStateError, OSError):
            if delivery.acknowledging is not None:
                await delivery.acknowledging.requeue(delivery.delivery_tag)
            else:
                await delivery.channel.basic_reject(delivery.delivery_tag, requeue=True, wait=False)


async def ack_all(taken: Iterable[Taken]) -> None:
    """Acknowledges them: one frame for all of a channel that came one after the other."""
    alone: dict[Channel, list[int]] = {}
    together: dict[Acknowledging, list[int]] = {}
    for one in taken:
        delivery = one.message
        if delivery.acknowledging is not None:
            together.setdefault(delivery.acknowledging, []).append(delivery.delivery_tag)
        else:
            alone.setdefault(delivery.channel, []).append(delivery.delivery_tag)
    for channel, tags in alone.items():
        if not channel.is_closed:
            payload = frames.acks(channel.number, 0, tags)
            await channel.write_queue.put(ChannelFrame(payload=payload, should_close=False))
    for acknowledging, tags in together.items():
        with suppress(BrokerUnavailable):
            await acknowledging.ack(tags)


class Taker:
    """Takes out of queues over a few channels of one link. The queues are seen to by the caller."""

    def __init__(self, link: Link, *, timeout_ms: int) -> None:
        self._link = link
        self._timeout_s = timeout_ms / 1_000
        self._getting: list[Channel | None] = [None] * _CHANNELS
        self._opening = [asyncio.Lock() for _ in range(_CHANNELS)]
        self._next = 0
        self._gatherer = Gatherer(link, timeout_ms=timeout_ms)
        self._waiting: Channel | None = None
        self._opening_waiting = asyncio.Lock()

    async def take(self, queue: str, limit: int) -> list[Taken]:
        """Takes up to `limit` messages that stand in the queue now, oldest first.

        Raises:
            BrokerUnavailable: none was taken.
        """
        first, left = await self._get(queue)
        if first is None:
            return []
        wanted = min(limit - 1, left)
        if wanted <= _FEW:
            return [first, *await self._get_few(queue, wanted)]
        try:
            return [first, *(Taken(queue, one) for one in await self._gatherer.gather(queue, wanted))]
        except BrokerUnavailable:
            # What could not be had is no reason to give up what is here.
            return [first]
        except asyncio.CancelledError:
            await first.requeue()
            raise

    async def _get_few(self, queue: str, wanted: int) -> list[Taken]:
        taken: list[Taken] = []

        async def get_more() -> None:
            nonlocal wanted
            while wanted > 0:
                wanted -= 1
                message, _ = await self._get(queue)
                if message is None:
                    wanted = 0
                    return
                taken.append(message)

        # What one channel could not get is no reason to give up what others did.
        await asyncio.gather(*(get_more() for _ in range(min(wanted, _CHANNELS))), return_exceptions=True)
        return taken

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
        channel = await self._waiting_channel()

        def ended(frame: spec.Basic.Cancel) -> None:
            if frame.consumer_tag in tags:
                lost.append(frame.consumer_tag)
                arrived.set()

        async def received(queue: str, message: DeliveredMessage) -> None:
            taken.append(Taken(queue, delivery_of(message)))
            arrived.set()

        channel.on_consumer_cancel_callbacks.add(ended)
        try:
            async with self._link.asking(self._timeout_s):
                for queue in queues:
                    tag = f"poll-{uuid4().hex}"
                    tags.append(tag)
                    await channel.basic_consume(queue, partial(received, queue), consumer_tag=tag)
            await _first((arrived, *endings), channel, wait_ms / 1_000)
        except BaseException:
            await self._stop(channel, tags)
            for one in taken:
                await one.requeue()
            raise
        finally:
            channel.on_consumer_cancel_callbacks.discard(ended)
        await self._stop(channel, tags)
        if lost and not taken:
            raise QueueMissing("a queue was deleted while it was waited on")
        return taken

    async def _get(self, queue: str) -> tuple[Taken | None, int]:
        """The oldest message, and how many stand behind it."""
        self._next = (self._next + 1) % _CHANNELS
        at = self._next
        async with self._opening[at]:
            channel = self._getting[at]
            if channel is None or channel.is_closed:
                channel = self._getting[at] = await self._link.channel()
        async with self._link.asking(self._timeout_s):
            message = await channel.basic_get(queue, timeout=self._timeout_s)
        if isinstance(message.delivery, spec.Basic.GetEmpty):
            return None, 0
        return Taken(queue, delivery_of(message)), message.message_count or 0

    async def _waiting_channel(self) -> Channel:
        async with self._opening_waiting:
            if self._waiting is None or self._waiting.is_closed:
                channel = await self._link.channel()
                async with translated(self._timeout_s):
                    # Holds for each consumer apart: none gets a second message before its first is acknowledged.
                    await channel.basic_qos(prefetch_count=1)
                self._waiting = channel
            return self._waiting

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
