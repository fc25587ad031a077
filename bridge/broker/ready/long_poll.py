"""Waits for a message as a consumer with a prefetch of one: RabbitMQ wakes it, whoever made the message ready."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from bridge.broker.client.channel import Channel, new_tag
from bridge.broker.client.connection import BrokerConnection, translated
from bridge.broker.client.delivery import Delivery
from bridge.broker.ready.taken import Taken
from bridge.model.errors import BridgeError, BrokerUnavailable, QueueMissing


class _PollChannel:
    """A channel that several polls share. Each poll has its own consumers."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.acknowledger = channel.acknowledger()
        self.polls = 0

    def taken(self, queue: str, delivery: Delivery) -> Taken:
        delivery.acknowledger = self.acknowledger
        self.acknowledger.delivered(delivery.delivery_tag)
        return Taken(queue, delivery)


class LongPoll:
    """Polls over one connection. Callers declare the queues."""

    def __init__(self, connection: BrokerConnection, *, timeout_ms: int) -> None:
        self._connection = connection
        self._timeout_s = timeout_ms / 1_000
        self._shared: _PollChannel | None = None
        self._opening = asyncio.Lock()

    async def wait(self, queues: Sequence[str], wait_ms: int, ending: asyncio.Event) -> list[Taken]:
        """Waits until one of the queues has a message, and takes it.

        Returns nothing if no message came in time, or before `ending` was set. Returns more than one message if several
        queues got one at the same moment. When the caller is cancelled, all messages are requeued.

        Raises:
            BrokerUnavailable
            QueueMissing: one of the queues does not exist, or was deleted meanwhile.
        """
        abandoned = asyncio.Event()
        # A separate task: a caller that goes away can't end it between the arrival of a message and its requeue.
        polling = asyncio.create_task(self._poll(queues, wait_ms, (ending, abandoned)))
        try:
            return await asyncio.shield(polling)
        except asyncio.CancelledError:
            abandoned.set()
            with suppress(BridgeError):
                for taken in await polling:
                    await taken.requeue()
            raise

    async def _poll(self, queues: Sequence[str], wait_ms: int, endings: Sequence[asyncio.Event]) -> list[Taken]:
        arrived = asyncio.Event()
        taken: list[Taken] = []
        tags: list[str] = []
        lost: list[str] = []
        shared = await self._poll_channel()
        channel = shared.channel
        shared.polls += 1

        def cancelled(tag: str) -> None:
            if tag in tags:
                lost.append(tag)
                arrived.set()

        def received(queue: str, delivery: Delivery) -> None:
            taken.append(shared.taken(queue, delivery))
            arrived.set()

        try:
            with channel.on_cancelled(cancelled):
                try:
                    async with self._connection.asking(self._timeout_s):
                        for queue in queues:
                            tags.append(tag := new_tag())
                            await channel.consume(queue, partial(received, queue), tag)
                    await _first((arrived, *endings), channel, wait_ms / 1_000)
                    await self._stop(channel, tags)
                except BaseException:
                    await self._stop(channel, tags)
                    for one in taken:
                        await one.requeue()
                    raise
        finally:
            self._leave(shared, empty=not taken)
        if lost and not taken:
            raise QueueMissing("somebody deleted a queue during a long poll on it")
        return taken

    async def _poll_channel(self) -> _PollChannel:
        async with self._opening:
            if self._shared is None or self._shared.channel.is_closed:
                channel = await self._connection.channel()
                async with translated(self._timeout_s):
                    # Holds for each consumer: none gets a second message before its first is acknowledged.
                    await channel.set_prefetch(1)
                self._shared = _PollChannel(channel)
            return self._shared

    def _leave(self, shared: _PollChannel, *, empty: bool) -> None:
        """Ends one poll on a channel.

        If no message came, one may have been lost on its way. So the next polls get another channel, and the last poll
        of this one retires it.
        """
        shared.polls -= 1
        if empty and shared is self._shared:
            self._shared = None
        if not shared.polls and shared is not self._shared:
            shared.acknowledger.retire(lambda: self._connection.close(shared.channel))

    async def _stop(self, channel: Channel, tags: list[str]) -> None:
        """Cancels the consumers. A message that was on its way has arrived when this returns."""
        try:
            with suppress(BrokerUnavailable):
                async with translated(self._timeout_s):
                    for tag in tags:
                        await channel.cancel(tag)
        finally:
            for tag in tags:
                channel.forget(tag)


async def _first(events: Iterable[asyncio.Event], channel: Channel, wait_s: float) -> None:
    """Waits until one of the events is set, or the time is over.

    Raises:
        BrokerUnavailable: the channel closed.
    """
    awaited: tuple[asyncio.Future[Any], ...] = (
        *(asyncio.ensure_future(event.wait()) for event in events),
        asyncio.shield(channel.closing),
    )
    try:
        await asyncio.wait(awaited, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in awaited:
            one.cancel()
    if channel.is_closed:
        raise BrokerUnavailable("RabbitMQ closed the channel of a long poll")
