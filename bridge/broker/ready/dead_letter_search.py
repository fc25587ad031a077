"""Searches a dead-letter queue for one message, and requeues all others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from bridge.broker.client.connection import BrokerConnection, translated
from bridge.broker.client.delivery import Delivery
from bridge.broker.ready.taken import Taken
from bridge.model.errors import QueueMissing

_STEP_S = 5.0


class DeadLetterSearch:
    """Dead-letter queues have no delivery limit, so messages can be read and requeued without a loss."""

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection

    @asynccontextmanager
    async def find(self, queue: str, is_wanted: Callable[[Taken], bool]) -> AsyncIterator[Taken | None]:
        """Yields the first message for which `is_wanted` holds, or None. The caller acknowledges it within the context.

        All others are requeued at their places when the context ends.

        Raises:
            BrokerUnavailable
        """
        channel = await self._connection.channel()
        tag = ""
        try:
            deliveries: asyncio.Queue[Delivery] = asyncio.Queue()
            try:
                async with translated(_STEP_S):
                    depth = await channel.depth(queue)
            except QueueMissing:
                depth = 0
            if depth:
                async with translated(_STEP_S):
                    tag = await channel.consume(queue, deliveries.put_nowait)
            wanted: Taken | None = None
            for _ in range(depth):
                try:
                    async with asyncio.timeout(_STEP_S):
                        taken = Taken(queue, await deliveries.get())
                except TimeoutError:
                    break  # others have taken the rest
                if is_wanted(taken):
                    wanted = taken
                    break
            yield wanted
        finally:
            channel.forget(tag)
            if not channel.is_closed:
                async with translated(_STEP_S):
                    await channel.close()
