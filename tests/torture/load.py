"""Puts the load together: everything that sends, changes, removes and consumes during a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Final

from benchmarks.loops import together
from tests.history import History
from tests.torture.amqp import Publisher
from tests.torture.api import Api
from tests.torture.bulk import Bulk
from tests.torture.consumers import Puller, Subscriber
from tests.torture.crowd import Crowd
from tests.torture.letters import Letters
from tests.torture.policies import Policies
from tests.torture.producers import Producers
from tests.torture.reuse import Reuse
from tests.torture.sender import Sender
from tests.torture.stage import Stage
from tests.torture.ticks import Ticks
from tests.torture.topics import (
    ALL,
    CHANGED,
    CHANGED_CONSUMED,
    CHANGED_PULLED,
    CONSUMED,
    CROWDED,
    PULLED,
    REMOVED,
    STEADY,
    first,
)

RATE_PER_S: Final = 200.0
_LETTERS, _CALLERS = 12.5, 2.5  # times the rate: 2,500 dead letters and 500 callers by default
_CROWD_S = 10.0
_PULLERS = 2  # of each topic


class Load:
    def __init__(
        self, stage: Stage, api: Api, history: History, *, rate_per_s: float, longest_ms: int, seed: int
    ) -> None:
        random = Random(seed)
        self._stage = stage
        self._api = api
        self._history = history
        self._random = random
        self._publisher = Publisher(stage.amqp_url)
        self._policies = Policies(api, history, random)
        self._sender = Sender(api, self._publisher, history, self._policies)
        self._rate_per_s = rate_per_s
        self._producers = Producers(self._sender, STEADY, longest_ms=longest_ms, random=random)
        self._reuse = Reuse(self._sender, random)
        self._letters = Letters(self._sender, stage.amqp_url, count=round(rate_per_s * _LETTERS), random=random)
        self._bulk, self._ticks = Bulk(api, history), Ticks(api, history)
        callers = round(rate_per_s * _CALLERS)
        self._crowd = Crowd(stage.http_urls, history, self._policies, callers=callers, seed=seed)

    @property
    def findings(self) -> list[str]:
        """What went wrong besides the messages' histories."""
        return [*self._reuse.findings, *self._bulk.findings, *self._ticks.findings]

    def end(self) -> None:
        """Looks at the end of the calm time for what has gone silent."""
        self._ticks.end()

    @asynccontextmanager
    async def consuming(self) -> AsyncIterator[None]:
        """Sends each topic a first message, so that its queues exist, and consumes until the context ends. Begins when
        all dead letters are there."""
        await asyncio.gather(*(self._sender.send(topic, first(topic), {"delay": 0}) for topic in ALL))
        pulled = (*PULLED, CHANGED_PULLED, CROWDED, REMOVED)
        pullers = [self._puller(topic).run() for topic in pulled for _ in range(_PULLERS)]
        subscribers = [self._subscriber(topic).run() for topic in (*CONSUMED, CHANGED_CONSUMED)]
        async with together() as group:
            consuming = (*pullers, *subscribers, self._letters.consume(), self._ticks.consume())
            tasks = [group.create_task(work) for work in consuming]
            await self._letters.fill()
            yield
            for task in tasks:
                task.cancel()

    async def run(self, stop: asyncio.Event, seconds: float) -> None:
        """Goes on until `stop` is set, which is after `seconds` at the earliest. Returns when every message is
        accepted."""
        async with together() as group:
            group.create_task(self._producers.run(stop, self._rate_per_s))
            group.create_task(self._policies.run(CHANGED, stop))
            group.create_task(self._bulk.run(stop))
            group.create_task(self._ticks.run(stop))
            if not self._history.forgetful:  # a forgotten end would make the next message of the id a repeated send
                group.create_task(self._reuse.run(stop, self._rate_per_s))
            group.create_task(self._letters.run(stop, seconds))
            group.create_task(self._crowd.run(self._publisher, seconds / 3, min(_CROWD_S, seconds / 3)))
        await self._publisher.close()

    def _puller(self, topic: str) -> Puller:
        return Puller(self._api, topic, self._history, self._policies, self._random)

    def _subscriber(self, topic: str) -> Subscriber:
        return Subscriber(self._stage.amqp_url, topic, self._history, self._random)
