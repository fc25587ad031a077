"""Fetches many messages of one queue at once, in order, and no more than are wanted.

The fetch uses a consumer whose prefetch is the wanted number, so RabbitMQ sends all messages in one go. Each
`basic.get` would be a round trip through the queue's log. The consumer is cancelled before any message is acknowledged,
as RabbitMQ would deliver more otherwise. No message is requeued, because a requeue counts towards the queue's delivery
limit.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from bridge.broker.client.channel import Channel, new_tag
from bridge.broker.client.connection import BrokerConnection, translated
from bridge.broker.client.delivery import Delivery

_AT_ONCE = 32  # channels
_STILL_S = 0.02  # if no delivery comes for this long, other consumers may have taken the rest


@dataclass(slots=True)
class _FetchChannel:
    """A channel with one consumer at a time. `prefetch`: the prefetch of its next consumer."""

    channel: Channel
    prefetch: int = 0


@dataclass(slots=True)
class _Fetch:
    wanted: int
    tag: str = field(default_factory=new_tag)
    arrived: list[Delivery] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)  # all wanted messages have come, or the queue is gone

    def received(self, delivery: Delivery) -> None:
        self.arrived.append(delivery)
        if len(self.arrived) == self.wanted:
            self.ended.set()


class Fetcher:
    """Fetches on channels of one connection. Each fetch in flight has a channel; later fetches use it again."""

    def __init__(self, connection: BrokerConnection, *, timeout_ms: int) -> None:
        self._connection = connection
        self._timeout_s = timeout_ms / 1_000
        self._free: list[_FetchChannel] = []
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def fetch(self, queue: str, wanted: int) -> list[Delivery]:
        """Returns up to `wanted` messages of the queue, the oldest first. All other messages stay in the queue.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
            QueueMissing: the queue does not exist.
        """
        async with translated(self._timeout_s):
            await self._slots.acquire()
        try:
            free = await self._free_channel()
            return await self._fetch(free, queue, _Fetch(wanted))
        finally:
            self._slots.release()

    async def _fetch(self, used: _FetchChannel, queue: str, fetch: _Fetch) -> list[Delivery]:
        try:
            async with self._connection.asking(self._timeout_s):
                await self._consume(used, queue, fetch)
        except BaseException:
            # RabbitMQ requeues what has arrived, and what is on its way.
            used.channel.forget(fetch.tag)
            await self._connection.close(used.channel)
            raise
        if len(fetch.arrived) == fetch.wanted:
            self._free.append(used)
        else:
            used.channel.acknowledger.retire(lambda: self._connection.close(used.channel))
        return fetch.arrived

    async def _consume(self, used: _FetchChannel, queue: str, fetch: _Fetch) -> None:
        channel = used.channel
        if used.prefetch != fetch.wanted:
            await channel.set_prefetch(fetch.wanted)
            used.prefetch = fetch.wanted
        await channel.consume(queue, fetch.received, fetch.tag, fetch.ended.set)
        arrived = 0
        while not fetch.ended.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_STILL_S):
                    await fetch.ended.wait()
            still, arrived = len(fetch.arrived) == arrived, len(fetch.arrived)
            # Messages that RabbitMQ has sent arrive before this answer.
            if still and not await channel.depth(queue):
                break
        await channel.cancel(fetch.tag)

    async def _free_channel(self) -> _FetchChannel:
        while self._free:
            free = self._free.pop()
            if free.channel.is_open:
                return free
        return _FetchChannel(await self._connection.channel())
