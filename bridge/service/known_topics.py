"""Finds out which topics exist, so that no read creates a topic. Wakes pulls that wait for a missing topic once the
topic is created.

A topic exists if the list in Redis names it, or if RabbitMQ has its ready queue: Redis may have lost the list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic

from bridge.model import background, log_scope
from bridge.model.errors import StoreUnavailable
from bridge.model.recent import Recent
from bridge.service.context import Context
from bridge.store.kept.topic_list import TopicList

_LOOK_EVERY_S = 0.02
_IDLE_SHARE = 9  # after a look that took a while, pauses this many times as long
_LONGEST_PAUSE_S = 1.0
_NAMES_A_LOOK = 1_000
_DECLARED_WITHIN_S = 1.0
_MOST_FOUND = 1_000


class KnownTopics:
    """Finds out which topics of one pool exist. One task reads the list of topics for all waiting pulls of the
    process."""

    def __init__(self, context: Context) -> None:
        self._list = TopicList(context.store, context.records.keys)
        self._declared = context.broker.declared
        self._polls: dict[asyncio.Event, Collection[str]] = {}  # the events of polls, with the topics they miss
        self._looking: asyncio.Task[None] | None = None
        self._found: Recent[str, bool] = Recent(_MOST_FOUND)  # topics that RabbitMQ has and the list has not

    async def of(self, topics: Sequence[str]) -> list[str]:
        """Returns the given topics that exist, in order. Declares the queues of topics that the list names. If RabbitMQ
        has a topic's queue but the list does not name the topic, first waits for the list, for a second at most.

        Raises:
            Unavailable: RabbitMQ or Redis is away.
        """
        if all(map(self._declared.has_topic, topics)):
            return list(topics)
        listed = await self._listed(topics)
        await asyncio.gather(*(self._declared.ensure_topic(topic) for topic in listed))
        existing: list[str] = []
        found: set[str] = set()
        for topic in topics:
            if topic in listed:
                existing.append(topic)
            elif await self._declared.finds_topic(topic):
                # Not declared here: RabbitMQ also finds a queue that it is deleting, and a declare would create it
                # again.
                found.add(topic)
                existing.append(topic)
        await self._until_declared({topic for topic in found if not self._found.get(topic)})
        return existing

    def forget(self, topics: Collection[str]) -> None:
        """Forgets that these topics have queues, because a queue was gone."""
        self._declared.forget_topics(topics)
        for topic in topics:
            self._found.forget(topic)

    async def _until_declared(self, topics: set[str]) -> None:
        """Waits until the list names topics that RabbitMQ has, but at most a second. Later calls do not wait for these
        topics again.

        RabbitMQ finds a new queue before the queue has a leader. If a client gets or consumes from the queue then,
        RabbitMQ closes the client's connection. The process that declares the queue puts the topic on the list once
        there is a leader.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_DECLARED_WITHIN_S):
                while topics:
                    with self.awaiting(topics) as listed:
                        await listed.wait()
                    topics -= await self._listed(sorted(topics))
        for topic in topics:
            self._found.note(topic, True)

    @contextmanager
    def awaiting(self, missing: Collection[str]) -> Iterator[asyncio.Event]:
        """Yields an event for one waiting pull. Within the context, the event is set once the list names one of the
        missing topics, or by `wake_all`."""
        woken = asyncio.Event()
        self._polls[woken] = missing
        if missing and (self._looking is None or self._looking.done()):
            self._looking = log_scope.shared_task(self._look())
        try:
            yield woken
        finally:
            del self._polls[woken]

    def wake_all(self) -> None:
        """Sets the events of all waiting pulls."""
        for woken in self._polls:
            woken.set()

    async def _look(self) -> None:
        while names := sorted({topic for missing in self._polls.values() for topic in missing}):
            started_s = monotonic()
            for start in range(0, len(names), _NAMES_A_LOOK):
                try:
                    self._wake(await self._listed(names[start : start + _NAMES_A_LOOK]))
                except Exception as error:  # noqa: BLE001 - the polls go on, and so does this task
                    background.failed("look for topics", error)
            pause_s = max(_LOOK_EVERY_S, _IDLE_SHARE * (monotonic() - started_s))
            await asyncio.sleep(min(pause_s, _LONGEST_PAUSE_S))

    def _wake(self, topics: set[str]) -> None:
        if topics:
            for woken, missing in self._polls.items():
                if not topics.isdisjoint(missing):
                    woken.set()

    async def _listed(self, topics: Collection[str]) -> set[str]:
        """Returns the given topics that the list names. Returns none while the list's server is away and other servers
        answer."""
        try:
            return await self._list.listed(topics)
        except StoreUnavailable as error:
            if not error.partly:
                raise
            return set()
