"""Waits for a message as a consumer with a prefetch of one: RabbitMQ wakes it, whoever made the message ready."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

from bridge.broker.client.channel import Channel, new_tag
from bridge.broker.client.connection import BrokerConnection, translated
from bridge.broker.client.delivery import Delivery
from bridge.broker.ready.poll_channels import PollChannel, PollChannels
from bridge.broker.ready.taken import Taken
from bridge.model.errors import BridgeError, BrokerUnavailable, QueueMissing


class LongPoll:
    """Polls over one connection. Callers declare the queues."""

    def __init__(self, connection: BrokerConnection, *, timeout_ms: int) -> None:
        self._connection = connection
        self._timeout_s = timeout_ms / 1_000
        self._channels = PollChannels(connection, timeout_ms=timeout_ms)

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
        until_s = monotonic() + wait_ms / 1_000
        shared = await self._channels.join()
        channel = shared.channel

        def cancelled(tag: str) -> None:
            if tag in tags:
                lost.append(tag)
                arrived.set()

        def received(queue: str, delivery: Delivery) -> None:
            taken.append(shared.taken(queue, delivery))
            arrived.set()

        try:
            if not await _turn_came(shared, wait_ms / 1_000):
                return []
            with channel.on_cancelled(cancelled):
                try:
                    try:
                        async with self._connection.asking(self._timeout_s):
                            for queue in queues:
                                tags.append(tag := new_tag())
                                await channel.consume(queue, partial(received, queue), tag)
                    finally:
                        shared.turn.release()
                    await _first((arrived, *endings), channel, until_s - monotonic())
                    await self._stop(shared, tags)
                except BaseException:
                    await self._stop(shared, tags)
                    for one in taken:
                        await one.requeue()
                    raise
        finally:
            self._channels.leave(shared, doubted=bool(tags) and not taken)
        if lost and not taken:
            raise QueueMissing("somebody deleted a queue during a long poll on it")
        return taken

    async def _stop(self, shared: PollChannel, tags: list[str]) -> None:
        """Cancels the consumers. A message that was on its way has arrived when this returns."""
        try:
            async with shared.turn:
                if not shared.broken:
                    await self._cancel(shared, tags)
        finally:
            for tag in tags:
                shared.channel.forget(tag)

    async def _cancel(self, shared: PollChannel, tags: list[str]) -> None:
        try:
            async with translated(self._timeout_s):
                for tag in tags:
                    await shared.channel.cancel(tag)
        except BrokerUnavailable:
            # Others need not wait for the same silence.
            shared.broken = True


async def _turn_came(shared: PollChannel, wait_s: float) -> bool:
    """Waits for the turn to ask on the channel, which the caller releases. False: the time is over."""
    try:
        async with asyncio.timeout(wait_s):
            return await shared.turn.acquire()
    except TimeoutError:
        return False


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
