"""Asks RabbitMQ and Redis for the figures that a scrape of the metrics shows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import time
from typing import TypeVar

from bridge.broker.declared.findings import Finding
from bridge.metrics.broker import BLOCKED
from bridge.metrics.loops import FINDINGS
from bridge.metrics.states import QueueDepth, TopicState
from bridge.metrics.store import CLOCK_SKEW
from bridge.model.errors import Unavailable
from bridge.service.context import Context
from bridge.store.clock import StoreClock

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of messages in one pool. `topics`: by topic's name. `queues`: in each of the bridge's own queues.
    `whole`: every server that was asked has answered."""

    topics: Mapping[str, TopicState]
    queues: Sequence[QueueDepth]
    whole: bool


class Scraped:
    """Asks the servers of one pool for its figures, and sets metrics. `clock`: the clock of the pool's Redis."""

    def __init__(self, context: Context, clock: StoreClock) -> None:
        self._broker = context.broker
        self._topics = context.topics
        self._clock = clock
        self._broker_part = context.part_name("broker")
        self._store_part = context.part_name("store")
        self._findings: Sequence[Finding] = ()

    async def figures(self, parts: Mapping[str, str]) -> Figures:
        """Returns the figures. Asks only servers whose state is "ok". `parts`: the state of the broker, the store and
        each loop by name: "ok", or the reason why not."""
        topics, depths = await asyncio.gather(
            _asked(parts[self._store_part], self._topics.states), _asked(parts[self._broker_part], self._broker.depths)
        )
        queues = [QueueDepth(self._broker_part, queue, messages) for queue, messages in (depths or {}).items()]
        return Figures(topics or {}, queues, topics is not None and depths is not None)

    async def show_servers(self, states: Mapping[str, str]) -> None:
        """Sets the metrics about this pool's servers. `states`: the states of `broker` and `store`: "ok", or the reason
        why not."""
        blocked = self._broker.is_blocked
        if blocked or states["broker"] == "ok":
            BLOCKED.labels(self._broker_part).set(blocked)
        else:
            BLOCKED.remove(self._broker_part)
        if states["store"] == "ok":
            CLOCK_SKEW.labels(self._store_part).set(self._clock.now_ms() / 1_000 - time())
        else:
            CLOCK_SKEW.remove(self._store_part)

    def show_findings(self, findings: Sequence[Finding]) -> None:
        """Sets the metric that counts findings by severity. `findings`: the present findings of this pool."""
        for severity in ("error", "warning"):
            # The gauge is shared with other pools.
            before, now = (sum(one.severity == severity for one in some) for some in (self._findings, findings))
            FINDINGS.labels(severity).inc(now - before)
        self._findings = findings


async def _asked(state: str, ask: Callable[[], Awaitable[Mapping[str, Answer]]]) -> Mapping[str, Answer] | None:
    """If the server's state is "ok", asks the server and returns its answer; None if it does not answer. In any other
    state, returns an empty mapping and does not ask."""
    if state != "ok":
        return {}
    try:
        return await ask()
    except Unavailable:
        return None
