"""Holds the objects that all requests of lmstfy's wire share: settings, pools, grants, job ids and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bridge.http.wires.lmstfy.grants import Grants
from bridge.http.wires.lmstfy.job_ids import JobIds
from bridge.http.wires.lmstfy.metrics import Metrics
from bridge.model.errors import Unavailable
from bridge.settings.pools import DEFAULT

if TYPE_CHECKING:
    from bridge.model.values import TopicInfo
    from bridge.service.actions import Actions
    from bridge.service.pools.pools import Pools
    from bridge.service.service import Service


class Wire:
    """The objects that all requests of the wire share. A pool is a RabbitMQ and a Redis; an empty pool name is the
    default pool."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self.settings = pools.settings
        self.metrics = Metrics()
        self.job_ids = JobIds()
        self.grants = Grants(lambda token: self.service_of(token.pool))
        self.logs_access = False
        self._kept_names: set[tuple[str, str]] = set()

    @property
    def actions(self) -> Actions:
        """The object that records operators' actions."""
        return self._pools.default.actions

    def pool_names(self) -> list[str]:
        return sorted(self._pools.services)

    def has_pool(self, pool: str) -> bool:
        return (pool or DEFAULT) in self._pools.services

    def service_of(self, pool: str) -> Service:
        """Returns the service of the pool, which must exist. This service's Redis holds the pool's tokens, limits and
        long names."""
        return self._pools.services[pool or DEFAULT]

    def serving(self, pool: str, topic: str) -> Service | None:
        """Returns the service that holds the topic for a token of this pool; None if there is no such pool.

        A token of the default pool also reaches a namespace that is routed to another pool. A token of any other pool
        reaches only its own pool.
        """
        if not self.has_pool(pool):
            return None
        return self._pools.serving(topic) if (pool or DEFAULT) == DEFAULT else self.service_of(pool)

    async def keep_name(self, pool: str, topic: str, namespace: str, queue: str) -> None:
        """Stores the full names of a namespace and a queue that are too long for the topic's name. So `queues` lists
        the full names.

        Raises:
            StoreUnavailable: Redis did not answer.
        """
        if (pool, topic) not in self._kept_names:
            await self.service_of(pool).lmstfy.keep_name(topic, namespace, queue)
            self._kept_names.add((pool, topic))

    async def queues(self, pool: str) -> Mapping[str, tuple[str, str]]:
        """Returns (namespace, queue) by topic, for the pool's topics that have a namespace.

        Raises:
            StoreUnavailable: Redis did not answer.
        """
        service = self.service_of(pool)
        topics, full_names = await service.topics.names(), await service.lmstfy.names()
        queues: dict[str, tuple[str, str]] = {}
        for topic in topics:
            namespace, slash, queue = topic.partition("/")
            if slash:
                queues[topic] = full_names.get(topic, (namespace, queue))
        return queues

    async def measure(self) -> None:
        """Updates the gauges of queue sizes. A pool whose Redis does not answer keeps its last values."""
        for pool in self.pool_names():
            try:
                queues = await self.queues(pool)
                infos = await self.service_of(pool).topics.infos()
            except Unavailable:
                continue
            sizes: dict[tuple[str, str], TopicInfo] = {
                queues[info.topic]: info for info in infos if info.topic in queues
            }
            self.metrics.sized(pool, sizes)
