"""Several pools, each with a service of its own, as if they were one.

A topic is of the pool that its namespace is routed to, and else of the default one. What is called with a topic runs in
its pool alone, so a pool that is away takes its own topics with it and no others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

from bridge import metrics
from bridge.model.errors import InvalidRequest
from bridge.model.message import Message
from bridge.model.values import TopicInfo
from bridge.service.health import Health
from bridge.service.service import Service
from bridge.service.supervisor import Loop
from bridge.service.worker_rpc import WorkerRpc
from bridge.settings.pools import DEFAULT

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Routes:
    """Which pool a topic is of: by its namespace."""

    namespaces: Mapping[str, str]

    def of(self, topic: str) -> str:
        namespace, slash, _ = topic.partition("/")
        return self.namespaces.get(namespace, DEFAULT) if slash else DEFAULT


class Pools(Service):
    """Its own `parts` are the default pool's, with which is what has no topic: tokens, rates, numbers of tasks."""

    def __init__(self, services: Mapping[str, Service], routes: Routes) -> None:
        self._services = dict(services)
        self._routes = routes
        own = self._services[DEFAULT]
        self.worker_rpc = WorkerRpc()
        self.settings, self.context, self.task_ids, self.watch = own.settings, own.context, own.task_ids, own.watch
        self.topics_by_id, self.lmstfy = own.topics_by_id, own.lmstfy
        self.lookup = self._way(type(own.lookup), "lookup", find=self._find)
        self.sending = self._way(type(own.sending), "sending")
        self.replacing = self._way(type(own.replacing), "replacing")
        self.pulling = self._way(type(own.pulling), "pulling")
        self.settling = self._way(type(own.settling), "settling")
        self.settling_tasks = self._way(type(own.settling_tasks), "settling_tasks")
        self.changing = self._way(type(own.changing), "changing")
        self.dead = self._way(type(own.dead), "dead")
        self.topics = self._way(type(own.topics), "topics", names=self._names, infos=self._infos)
        self.subscriptions = self._way(type(own.subscriptions), "subscriptions")

    @property
    def pools(self) -> Mapping[str, Service]:
        return self._services

    def serving(self, topic: str) -> Service:
        return self._services[self._routes.of(topic)]

    def add(self, loop: Loop) -> None:
        self._services[DEFAULT].add(loop)

    async def start(self) -> None:
        try:
            await self._each(lambda service: service.start())
            self.listen()
        except BaseException:
            await self.stop()
            raise

    def drain(self) -> None:
        for service in self._services.values():
            service.drain()

    async def stop(self) -> None:
        self.worker_rpc.end()
        await self._each(lambda service: service.stop())

    async def own_health(self) -> Health:
        """Well as long as one pool is. Parts and findings of others than the default one begin with their pool."""
        healths = dict(zip(self._services, await self._each(lambda service: service.own_health()), strict=True))
        own = healths[DEFAULT]
        return Health(
            ok=any(health.ok for health in healths.values()),
            parts={part: state for health in healths.values() for part, state in health.parts.items()},
            findings=[
                one if pool == DEFAULT else replace(one, says=f"pool {pool}: {one.says}")
                for pool, health in healths.items()
                for one in health.findings
            ],
            policies="; ".join(
                dict.fromkeys(
                    health.policies if health.policies == own.policies else f"pool {pool}: {health.policies}"
                    for pool, health in healths.items()
                )
            ),
        )

    async def gauge(self) -> None:
        counts: dict[tuple[str, str], int] = {}
        for one in await self._each(lambda service: service.counts()):
            for place, count in one.items():
                counts[place] = counts.get(place, 0) + count
        metrics.counted(counts)

    async def _each(self, ask: Callable[[Service], Awaitable[Kind]]) -> list[Kind]:
        """The answers in the order of the pools, once all have answered.

        Raises:
            what the first of those that failed raised.
        """
        answers = await asyncio.gather(*map(ask, self._services.values()), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return cast("list[Kind]", answers)

    async def _names(self) -> list[str]:
        return sorted({name for names in await self._each(lambda service: service.topics.names()) for name in names})

    async def _infos(self) -> list[TopicInfo]:
        """Of all pools: a part of the list would look like all there is."""
        return [info for infos in await self._each(lambda service: service.topics.infos()) for info in infos]

    async def _find(self, topics: Sequence[str], message_id: str) -> list[Message]:
        apart: dict[str, list[str]] = {}
        for topic in topics:
            apart.setdefault(self._routes.of(topic), []).append(topic)
        finding = (self._services[pool].lookup.find(own, message_id) for pool, own in apart.items())
        return [message for found in await asyncio.gather(*finding) for message in found]

    def _way(self, kind: type[Kind], name: str, **across: Callable[..., Awaitable[Any]]) -> Kind:
        return cast("Kind", _Way(self._of, name, across))

    def _of(self, given: object) -> Service:
        """The service of the pool that all topics of a call's first argument are of.

        Raises:
            InvalidRequest
        """
        topics = _topics(given)
        pools = {self._routes.of(topic): topic for topic in topics}
        if len(pools) > 1:
            one, other = sorted(pools.items())[:2]
            raise InvalidRequest.of(
                "topics",
                list(topics),
                "topics of one pool",
                f"are of several pools ({one[1]} of {one[0]}, {other[1]} of {other[0]}); ask for those of each apart",
            )
        return self._services[next(iter(pools), DEFAULT)]


class _Way:
    """One way through, by which each call goes to the pool of its first argument; `across` are calls of all pools."""

    def __init__(
        self, of: Callable[[object], Service], name: str, across: Mapping[str, Callable[..., Awaitable[Any]]]
    ) -> None:
        self._of, self._name, self._across = of, name, across

    def __getattr__(self, called: str) -> Callable[..., Awaitable[Any]]:
        return self._across.get(called) or partial(self._call, called)

    async def _call(self, called: str, given: object, *further: Any, **named: Any) -> Any:
        return await getattr(getattr(self._of(given), self._name), called)(given, *further, **named)


def _topics(given: object) -> Sequence[str]:
    """Of a topic, of what has one, or of several of either."""
    if isinstance(given, str):
        return (given,)
    if isinstance(given, Sequence):
        return [topic for one in given for topic in _topics(one)]
    return (cast("Any", given).topic,)
