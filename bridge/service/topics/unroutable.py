"""Takes a topic's dead letters out of `delay.unroutable`, the queue of all dead letters that have a target."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Final

from bridge.broker.declared.declared import Declared
from bridge.broker.ready.dead_letter_search import DeadLetterSearch
from bridge.broker.ready.taken import Taken, ack_all
from bridge.model.errors import QueueMissing

_GROUP: Final = 1_000


class Unroutable:
    def __init__(self, declared: Declared, search: DeadLetterSearch) -> None:
        self._declared = declared
        self._search = search

    async def is_empty(self) -> bool:
        """Whether the queue is empty or missing.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        """
        try:
            return not await self._declared.depth(self._declared.unroutable_queue)
        except QueueMissing:
            return True

    def of(self, topic: str, *, most: int) -> AbstractAsyncContextManager[list[Taken]]:
        """Returns a context that yields up to `most` dead letters of the topic, the oldest first. The caller
        acknowledges them within the context; RabbitMQ requeues all others."""

        def is_wanted(taken: Taken) -> bool:
            return (taken.properties.headers or {}).get("x-delay-topic") == topic

        return self._search.find_many(
            self._declared.unroutable_queue, is_wanted, most=most, ensure=self._declared.wheel.ensure
        )

    async def remove(self, topic: str) -> None:
        """Deletes the topic's dead letters from the queue, but not their records.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        """
        while not await self.is_empty():
            async with self.of(topic, most=_GROUP) as letters:
                ack_all(letters)
            if len(letters) < _GROUP:
                break
