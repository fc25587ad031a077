"""Declares the queues of topics, several topics together, and remembers which topics it has declared."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Final

from bridge.broker.declared.declare import Declarer, once_more
from bridge.broker.declared.young_queues import WHEEL, YoungQueues
from bridge.model.errors import BrokerUnavailable
from bridge.model.group_commit import GroupCommit
from topology import plan
from topology.names import Names

MOST_TOPICS = 20_000
"""The declared topics that a process remembers. Beyond that it forgets all, and declares each again when needed."""

_TOGETHER: Final = 32


class TopicQueues:
    """`declared`: topics whose queues exist. `direct`: topics on direct release."""

    def __init__(
        self, declarer: Declarer, names: Names, young: YoungQueues, turn: asyncio.Lock, *, delivery_limit: int
    ) -> None:
        """`turn`: held during each declare."""
        self.declared: set[str] = set()
        self.direct: set[str] = set()
        self._declarer = declarer
        self._names = names
        self._young = young
        self._turn = turn
        self._delivery_limit = delivery_limit
        self._declaring = GroupCommit(self._declare, most=_TOGETHER, at_once=1)

    async def declare(self, topic: str) -> None:
        """Declares a topic's queues, unless they are declared, together with topics that others declare meanwhile.

        Raises:
            BrokerUnavailable
        """
        if topic not in self.declared and (error := await self._declaring.submit(topic)) is not None:
            raise copy(error)  # several callers may get it

    def plan(self, topic: str, *, direct: bool) -> plan.Plan:
        """Returns the plan of one topic."""
        return plan.topic(self._names, topic, direct=direct, delivery_limit=self._delivery_limit)

    async def _declare(self, topics: list[str]) -> list[BrokerUnavailable | None]:
        """Returns an error or None for each topic."""
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
        ready = {topic: plan.Queue(name=self._names.ready_queue(topic), arguments={}) for topic in topics}
        missing = (await self._declarer.missing(plan.Plan(queues=tuple(ready.values())))).queues
        new = [topic for topic in topics if ready[topic] in missing]
        for topic in new:
            self._young.declaring(topic)
        for existed, some in ((False, new), (True, [topic for topic in topics if topic not in new])):
            if some:
                plans = (self.plan(topic, direct=topic in self.direct) for topic in some)
                await self._declarer.apply(plan.merged(plans), existed=existed)
        if len(self.declared) + len(topics) > MOST_TOPICS:
            self.declared.clear()
            self._young.forget_settled(WHEEL)
        for topic in topics:
            (self._young.declared if self._young.begun(topic) else self._young.exists)(topic)
        self.declared.update(topics)
