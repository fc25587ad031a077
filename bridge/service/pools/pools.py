"""Combines the services of all pools, so that one bridge process serves them together.

A pool is one RabbitMQ and one Redis. The settings route namespaces to pools. A topic of any other namespace, or without
one, belongs to the default pool. A call for one topic uses the service of its pool alone. So a pool that is away
affects its own topics and no others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar, cast

from bridge.metrics import flow, page
from bridge.metrics.states import STATES
from bridge.model.errors import InvalidRequest
from bridge.model.message import Message
from bridge.model.values import TopicInfo, TopicPage
from bridge.service.health.health import Health, merge_workers
from bridge.service.pools.overview import Overview
from bridge.service.pools.slots import Slots, slots_of
from bridge.service.pools.worker_rpc import WorkerRpc
from bridge.service.reading.cursors import make_topic_cursor, read_topic_cursor
from bridge.service.service import Service
from bridge.settings.amqp_urls import queues_page
from bridge.settings.pools import DEFAULT
from bridge.settings.settings import Settings

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Routes:
    """Maps a topic to its pool. `namespaces`: the pool's name for each namespace that the settings route to a pool."""

    namespaces: Mapping[str, str]

    def of(self, topic: str) -> str:
        """Returns the name of the topic's pool."""
        namespace, slash, _ = topic.partition("/")
        return self.namespaces.get(namespace, DEFAULT) if slash else DEFAULT


class Pools:
    """The services of all pools, for the front ends: HTTP API, wires and console.

    `services`: one for each pool, by the pool's name. `default`: the default pool's service. The default pool's servers
    also keep tokens, request rates, task numbers and operators' actions, which belong to no topic. `overview`: the
    figures of all pools.
    """

    def __init__(
        self, services: Mapping[str, Service], routes: Routes | None = None, worker_rpc: WorkerRpc | None = None
    ) -> None:
        self.services = dict(services)
        self.default = self.services[DEFAULT]
        self.worker_rpc = worker_rpc or WorkerRpc()
        self.overview = Overview(self.services, self.health, self.worker_rpc)
        self._routes = routes or Routes({})

    @property
    def settings(self) -> Settings:
        """The bridge's settings, which are the default pool's."""
        return self.default.settings

    def serving(self, topic: str) -> Service:
        """Returns the service of the topic's pool."""
        return self.services[self._routes.of(topic)]

    def serving_all(self, topics: Sequence[str]) -> Service:
        """Returns the service of the one pool that has all these topics.

        Raises:
            InvalidRequest: the topics belong to more than one pool.
        """
        example_by_pool = {self._routes.of(topic): topic for topic in topics}
        if len(example_by_pool) > 1:
            (pool, topic), (other_pool, other_topic) = sorted(example_by_pool.items())[:2]
            raise InvalidRequest.of(
                "topics",
                list(topics),
                "topics of one pool",
                f"are of several pools: {topic} is in {pool}, {other_topic} is in {other_pool};"
                " send one request for each pool",
            )
        return self.services[next(iter(example_by_pool), DEFAULT)]

    @property
    def alive(self) -> bool:
        """Whether every loop of every pool runs. A loop that waits for a server also runs."""
        return all(service.alive for service in self.services.values())

    async def start(self) -> None:
        """Starts the service of each pool, then answers the other worker processes.

        Raises:
            BrokerUnfit: a RabbitMQ can't keep the bridge's promises. All services are stopped first.
            StoreUnfit: the index in a Redis has another number of buckets. All services are stopped first.
        """
        try:
            await self._each(lambda service: service.start())
            self.worker_rpc.listen(
                {"health": self._health_json, "metrics": self._metrics_json, "counted": flow.counted_here}
            )
        except BaseException:
            await self.stop()
            raise

    def drain(self) -> None:
        """Prepares all services for the stop (`Service.drain`), and ends the streams of the overview."""
        self.overview.end()
        for service in self.services.values():
            service.drain()

    async def stop(self) -> None:
        """Stops answering other worker processes, and stops the service of each pool."""
        self.worker_rpc.end()
        await self._each(lambda service: service.stop())

    async def health(self) -> Health:
        """Returns the health of all worker processes of this `serve`.

        A process that stops reports only its own health: the other processes stop too and may be gone.
        """
        own = await self.own_health()
        return own if "process" in own.parts else merge_workers(own, await self.worker_rpc.ask("health"))

    async def own_health(self) -> Health:
        """Returns the health of this process. It is `ok` if the health of at least one pool is `ok`.

        Outside the default pool, names of parts and texts of findings begin with the pool's name. `policies` has a
        pool's text only if it differs from the default pool's, and then with the pool's name.
        """
        health_by_pool = dict(zip(self.services, await self._each(lambda service: service.health()), strict=True))
        own = health_by_pool[DEFAULT]
        return Health(
            ok=any(health.ok for health in health_by_pool.values()),
            parts={part: state for health in health_by_pool.values() for part, state in health.parts.items()},
            findings=[
                finding if pool == DEFAULT else replace(finding, says=f"pool {pool}: {finding.says}")
                for pool, health in health_by_pool.items()
                for finding in health.findings
            ],
            policies="; ".join(
                dict.fromkeys(
                    health.policies if health.policies == own.policies else f"pool {pool}: {health.policies}"
                    for pool, health in health_by_pool.items()
                )
            ),
        )

    async def exposition(self) -> tuple[bytes, str]:
        """Returns the metrics of all worker processes of this `serve` for Prometheus, and their content type.

        Asks RabbitMQ and Redis first. Otherwise the metrics would show a frozen server as it was before.
        """
        figures, others = await asyncio.gather(
            self._each(lambda service: service.figures()), self.worker_rpc.ask("metrics")
        )
        STATES.show(
            [of_topic for of_pool in figures for of_topic in of_pool.topics.items()],
            [depth for of_pool in figures for depth in of_pool.queues],
        )
        return await page.render(self.worker_rpc.name, others)

    async def slots(self) -> list[Slots]:
        """Returns the slots of all pools.

        Raises:
            Unavailable: a server of one pool did not answer.
        """
        return await self._each(lambda service: slots_of(service.context))

    def queues_pages(self) -> dict[str, str | None]:
        """Returns the addresses of the pages on which RabbitMQ's UI shows queues. By namespace; "" is for all topics
        outside these namespaces. None: the pool has no BRIDGE_MANAGEMENT_URL."""
        pages = {
            pool: service.settings.management_url
            and queues_page(service.settings.management_url, service.settings.amqp_url)
            for pool, service in self.services.items()
        }
        return {"": pages[DEFAULT]} | {namespace: pages[pool] for namespace, pool in self._routes.namespaces.items()}

    async def topic_names(self) -> list[str]:
        """Returns the names of the topics of all pools, sorted.

        Raises:
            StoreUnavailable: the Redis of one pool did not answer.
        """
        names = await self._each(lambda service: service.topics.names())
        return sorted({name for pool_names in names for name in pool_names})

    async def subscribed_topics(self) -> list[str]:
        """Returns the topics of all pools that have a subscription, sorted.

        Raises:
            StoreUnavailable: the Redis of one pool did not answer.
        """
        names = await self._each(lambda service: service.subscriptions.topics())
        return sorted({name for pool_names in names for name in pool_names})

    async def topic_infos(self) -> list[TopicInfo]:
        """Returns the topics of all pools, with their counts.

        Raises:
            StoreUnavailable: the Redis of one pool did not answer. A list without the topics of that pool would look
                complete.
        """
        infos = await self._each(lambda service: service.topics.infos())
        return [info for pool_infos in infos for info in pool_infos]

    async def topic_page(
        self, *, sees: Callable[[str], bool], prefix: str, limit: int, cursor: str | None
    ) -> TopicPage:
        """Returns a page of the topics of all pools, by name. `sees`: returns whether the caller may see a topic.
        `prefix`: how the names begin. `cursor`: the `next_cursor` of the previous page; None: the first page.

        Raises:
            InvalidRequest: no page gave this cursor.
            StoreUnavailable: the Redis of one pool did not answer.
        """
        after = "" if cursor is None else read_topic_cursor(cursor)
        listed: dict[str, Service] = {}
        lists = await self._each(lambda service: service.topics.names())
        for service, names in zip(self.services.values(), lists, strict=True):
            listed |= {name: service for name in names if name not in listed or self.serving(name) is service}
        names = sorted(name for name in listed if name > after and name.startswith(prefix) and sees(name))
        some, more = names[:limit], len(names) > limit
        infos = await self._each(
            lambda service: service.topics.infos_of([name for name in some if listed[name] is service])
        )
        by_name = {info.topic: info for of_pool in infos for info in of_pool}
        return TopicPage(
            items=[by_name[name] for name in some], next_cursor=make_topic_cursor(some[-1]) if more else None
        )

    async def find(self, topics: Sequence[str], message_id: str) -> list[Message]:
        """Returns the messages with this id in the given topics, which may belong to several pools. Leaves out topics
        that have no such message.

        Raises:
            StoreUnavailable: the Redis of one pool did not answer.
        """
        topics_by_pool: dict[str, list[str]] = {}
        for topic in topics:
            topics_by_pool.setdefault(self._routes.of(topic), []).append(topic)
        finds = (self.services[pool].lookup.find(own, message_id) for pool, own in topics_by_pool.items())
        return [message for messages in await asyncio.gather(*finds) for message in messages]

    async def _health_json(self) -> Any:
        return asdict(await self.own_health())

    async def _metrics_json(self) -> Any:
        await self.own_health()
        return await page.counted_here()

    async def _each(self, ask: Callable[[Service], Awaitable[Result]]) -> list[Result]:
        """Asks all services at once. Returns their answers in the order of the pools.

        Raises:
            Exception: the error of the first pool that failed, once all pools have answered.
        """
        answers = await asyncio.gather(*map(ask, self.services.values()), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return cast("list[Result]", answers)
