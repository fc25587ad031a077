"""Lookup through a dead-letter queue for one message, and leaving the others as they were."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiormq.abc import DeliveredMessage

from bridge.broker.client.connection import BrokerConnection, translated
from bridge.broker.client.delivery import delivery_of
from bridge.broker.ready.taken import Taken
from bridge.model.errors import QueueMissing

_STEP_S = 5.0


class DeadLetterSearch:
    """Dead-letter queues have no delivery limit, so what is looked at and put back loses nothing."""

    def __init__(self, link: BrokerConnection) -> None:
        self._link = link

    @asynccontextmanager
    async def find(self, queue: str, is_it: Callable[[Taken], bool]) -> AsyncIterator[Taken | None]:
        """The first message for which `is_it` holds, to be acknowledged within; None when there is none.

        All others go back to their places when the context ends.

        Raises:
            BrokerUnavailable
        """
        channel = await self._link.channel()
        try:
            seen: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
            try:
                async with translated(_STEP_S):
                    count = (await channel.queue_declare(queue, passive=True)).message_count or 0
            except QueueMissing:
                count = 0
            if count:
                async with translated(_STEP_S):
                    await channel.basic_consume(queue, seen.put)
            found: Taken | None = None
            for _ in range(count):
                try:
                    async with asyncio.timeout(_STEP_S):
                        taken = Taken(queue, delivery_of(await seen.get()))
                except TimeoutError:
                    break  # others took the rest
                if is_it(taken):
                    found = taken
                    break
            yield found
        finally:
            if not channel.is_closed:
                async with translated(_STEP_S):
                    await channel.close()
