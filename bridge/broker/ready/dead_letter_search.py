"""Searches a dead-letter queue for certain messages, and requeues all others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from bridge.broker.client.channel import new_tag
from bridge.broker.client.connection import BrokerConnection, translated
from bridge.broker.client.delivery import Delivery
from bridge.broker.put_aside import TakingGuard
from bridge.broker.ready.taken import Taken
from bridge.model.errors import BrokerUnavailable, QueueMissing
from bridge.model.time_limit import TimeLimit

_STEP_S = 5.0
_UNCOUNTED_S = 0.2
"""How long a search waits for messages that RabbitMQ does not count yet, because an earlier search has just requeued
them."""

_WINDOW = 1_000
"""The messages for each consumer. A quorum queue gives a consumer at most 2,000, and messages that arrived take
memory."""


class DeadLetterSearch:
    """Searches dead-letter queues. They have no delivery limit, so messages can be read and requeued without a loss."""

    def __init__(self, connection: BrokerConnection, guard: TakingGuard) -> None:
        self._connection = connection
        self._guard = guard
        # Searches of one queue take turns: a search does not find dead letters that another search holds. A lock lives
        # as long as its searches.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def find_many(
        self, queue: str, is_wanted: Callable[[Taken], bool], *, most: int, ensure: Callable[[], Awaitable[None]]
    ) -> AsyncIterator[list[Taken]]:
        """Yields the first `most` messages for which `is_wanted` holds, or fewer if the queue has fewer. The caller
        acknowledges them within the context.

        `ensure`: declares the queue, unless this process has declared it. Raises Unavailable. It is called if RabbitMQ
        has the queue and counts no messages. The queue may be being declared then, without a leader, and a read of it
        would end the connection (541, noproc).

        RabbitMQ requeues all other messages at their places when the context ends. Searches of one queue take turns.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
            Unavailable: the error of `ensure`.
        """
        crashes = self._guard.crashes
        try:
            async with (
                self._turns.setdefault(queue, asyncio.Lock()),
                self._search(queue, is_wanted, most, ensure) as found,
            ):
                yield found
        except BrokerUnavailable:
            if self._guard.crashes > crashes:
                await self._guard.look(queue)  # for the next search
            raise

    @asynccontextmanager
    async def _search(
        self, queue: str, is_wanted: Callable[[Taken], bool], most: int, ensure: Callable[[], Awaitable[None]]
    ) -> AsyncIterator[list[Taken]]:
        channel = await self._connection.channel()
        tags: list[str] = []
        try:
            deliveries: asyncio.Queue[Delivery] = asyncio.Queue()
            try:
                async with translated(_STEP_S):
                    depth = await channel.depth(queue)
                    await channel.set_prefetch(_WINDOW)
                    most_read = depth + _WINDOW
            except QueueMissing:
                depth = most_read = 0
            else:
                if not depth:
                    await ensure()
            found: list[Taken] = []
            for read in range(most_read):
                if read % _WINDOW == 0:
                    async with translated(_STEP_S):
                        tags.append(tag := new_tag())
                        await channel.consume(queue, deliveries.put_nowait, tag)
                try:
                    async with TimeLimit(_STEP_S if read < depth else _UNCOUNTED_S):
                        taken = Taken(queue, await deliveries.get())
                except TimeoutError:
                    break  # there are no more, or others have taken the rest
                if is_wanted(taken):
                    found.append(taken)
                    if len(found) == most:
                        break
            yield found
        finally:
            for tag in tags:
                channel.forget(tag)
            if channel.is_open:
                async with translated(_STEP_S):
                    await channel.close()
