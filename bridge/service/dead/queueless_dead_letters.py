"""Finds dead letters that Redis lists, but whose queue somebody has deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from bridge.broker.declared.findings import Finding, dead_letters_without_queue
from bridge.model.message import SHOWN_STATES, State
from bridge.service.context import Context
from bridge.service.reading.lookup import Lookup
from bridge.store import pages

MOST: Final = 10
"""The most topics that are reported. After that many, the search ends."""

_TOPICS_AT_ONCE: Final = 100
_LOOKED_AT: Final = 10
"""How many dead messages of a topic are read, the oldest first. Dead letters stay for ever, other records are
forgotten."""

_LATEST_MS: Final = 2**53


class QueuelessDeadLetters:
    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._records = context.records
        self._declared = context.broker.declared
        self._lookup = Lookup(context)

    async def findings(self, topics: Sequence[str]) -> list[Finding]:
        """Returns a finding for each topic of `topics` whose dead letters have no queue, at most for the first ten
        (`MOST`). Asks RabbitMQ only about topics that have dead letters, as RabbitMQ logs each question about a missing
        queue as an error.

        Raises:
            Unavailable: RabbitMQ or Redis is away.
        """
        found: list[str] = []
        for start in range(0, len(topics), _TOPICS_AT_ONCE):
            some = await self._with_ended(topics[start : start + _TOPICS_AT_ONCE])
            letters = dict(zip(some, await asyncio.gather(*map(self._dead_letters, some)), strict=True))
            for topic in await self._declared.without_dead([topic for topic in some if letters[topic]]):
                # Read after RabbitMQ was asked: a removal of a topic ends its dead letters before it deletes their
                # queue.
                if await self._needs_queue(topic, letters[topic]):
                    found.append(topic)
                if len(found) == MOST:
                    break
            if len(found) == MOST:
                break
        return [dead_letters_without_queue(topic, self._declared.dead_queue(topic)) for topic in found]

    async def _with_ended(self, topics: Sequence[str]) -> list[str]:
        counts = await pages.counts(self._store, self._records, topics, edges_ms=())
        place = SHOWN_STATES.index(State.DEAD)
        return [topic for topic, counted in zip(topics, counts, strict=True) if counted.by_state[place]]

    async def _dead_letters(self, topic: str) -> list[str]:
        """Returns the ids of the dead letters among a topic's oldest dead messages (`_LOOKED_AT`), without reading
        bodies. A message whose time to live has passed has the state dead, but is no dead letter."""
        entries = await pages.page(
            self._store,
            self._records,
            topic,
            states=str(int(State.DEAD)),
            due_from_ms=0,
            due_to_ms=_LATEST_MS,
            cursor=None,
            limit=_LOOKED_AT,
        )
        weighed = await self._store.run([self._records.weigh(topic, message_id) for _, message_id in entries])
        return [one.record.id for one in weighed if one.record is not None and one.record.is_dead_letter]

    async def _needs_queue(self, topic: str, letters: Sequence[str]) -> bool:
        """Whether one of the messages is still a dead letter of the topic's own queue. Messages with a target have
        another queue."""
        for message in await self._lookup.get_many(topic, letters):
            if message is None or not message.record.is_dead_letter:
                continue
            if message.envelope is None or message.envelope.target is None:
                return True
        return False
