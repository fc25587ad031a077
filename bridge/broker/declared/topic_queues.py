"""Declares one queue per topic, for several topics in one call, and remembers which topics have their queue."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Final

from bridge.broker.declared.declare import Declarer, NotAllowed, once_more
from bridge.broker.declared.young_queues import WHEEL, YoungQueues
from bridge.model.errors import BrokerUnavailable, NotPublished
from bridge.model.group_commit import GroupCommit
from topology import plan

MOST_TOPICS = 20_000
"""The most declared topics that a process remembers. Beyond that it forgets all, and declares each again when
needed."""

_TOGETHER: Final = 32

Existing = Callable[[Collection[str]], Awaitable[Collection[str]]]
"""A function that returns which of the given topics may have queues. Raises Unavailable."""


async def everything(topics: Collection[str]) -> Collection[str]:
    """Returns all given topics, so the queue of each one may be declared. Ready queues and the publishes of requests
    use this function as their `Existing`, because a request may name a new topic."""
    return topics


class TopicQueues:
    """Declares the ready queues of all topics, or the dead queues of all topics. `declared`: the topics whose queue was
    declared."""

    def __init__(
        self,
        declarer: Declarer,
        young: YoungQueues,
        turn: asyncio.Lock,
        *,
        planned: Callable[[str], plan.Plan],
        group: Callable[[str], str],
        existing: Existing,
    ) -> None:
        """`turn`: held during each declare. `planned`: returns the plan of one topic, with one queue. `group`: returns
        the name under which the queue's age is noted. `existing`: returns the topics that may have queues; missing
        queues of other topics are not declared."""
        self.declared: set[str] = set()
        self._declarer = declarer
        self._young = young
        self._turn = turn
        self._planned = planned
        self._group = group
        self._existing = existing
        self._declaring = GroupCommit(self._declare, most=_TOGETHER, at_once=1)

    async def declare(self, topic: str) -> None:
        """Declares a topic's queue, unless it is declared. Calls that come during a declare wait for its end, and then
        declare their queues together.

        Raises:
            NotPublished: the queue is missing, and the topic was removed.
            Unavailable: RabbitMQ or Redis is away.
        """
        if topic not in self.declared and (error := await self._declaring.submit(topic)) is not None:
            raise copy(error)  # several callers may get it

    def forget(self, topic: str) -> None:
        """Forgets a topic whose queue was deleted."""
        self.declared.discard(topic)
        self._young.forget(self._group(topic))

    async def _declare(self, topics: list[str]) -> list[BrokerUnavailable | None]:
        """Declares the queues of these topics. Returns an error or None for each topic."""
        async with self._turn:
            wanted = [topic for topic in dict.fromkeys(topics) if topic not in self.declared]
            errors = dict.fromkeys(wanted, await self._error_of(wanted)) if wanted else {}
            if any(errors.values()) and len(wanted) > 1:
                # One topic may be at fault, so each is tried alone.
                errors = {topic: await self._error_of([topic]) for topic in wanted}
        return [errors.get(topic) for topic in topics]

    async def _error_of(self, topics: Sequence[str]) -> BrokerUnavailable | None:
        try:
            await once_more(partial(self._declare_all, topics))
        except BrokerUnavailable as error:
            return error
        return None

    async def _declare_all(self, topics: Sequence[str]) -> None:
        plans = {topic: self._planned(topic) for topic in topics}
        missing = (await self._declarer.missing(plan.merged(plans.values()))).queues
        new = [topic for topic in topics if plans[topic].queues[0] in missing]
        if new and (removed := set(new).difference(await self._existing(new))):
            raise NotPublished(f"there is no topic {min(removed)!r}")
        for topic in new:
            self._young.declaring(self._group(topic))
        if new:
            await self._declarer.apply(plan.merged(plans[topic] for topic in new))
        if old := [plans[topic] for topic in topics if topic not in new]:
            with suppress(NotAllowed):  # another user has declared them, as an operator may want
                await self._declarer.apply(plan.merged(old), existed=True)
        if len(self.declared) + len(topics) > MOST_TOPICS:
            self.declared.clear()
            self._young.forget_settled(WHEEL)
        for group in map(self._group, topics):
            (self._young.declared if self._young.begun(group) else self._young.exists)(group)
        self.declared.update(topics)
