"""The wire as a whole: what all of its requests share, and where they come in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from bridge.http.wires.lmstfy.answers import api_not_found, page_not_found
from bridge.http.wires.lmstfy.basic_auth import check_admin_port
from bridge.http.wires.lmstfy.job_ids import JobIds
from bridge.http.wires.lmstfy.metrics import Metrics
from bridge.http.wires.lmstfy.pools import Pools
from bridge.http.wires.lmstfy.router import Router
from bridge.http.wires.lmstfy.routes import ADMIN, API
from bridge.http.wires.lmstfy.tokens import Grants
from bridge.model.errors import Unavailable
from bridge.settings.pools import DEFAULT
from bridge.store.lmstfy import LmstfyStore

if TYPE_CHECKING:
    from bridge.http.wires.lmstfy.request import LmstfyRequest
    from bridge.model.values import TopicInfo
    from bridge.service import pools

log = structlog.get_logger(__name__)


class Wire:
    def __init__(self, service: pools.Pools) -> None:
        """
        Raises:
            Undecided: who may use the admin port.
        """
        check_admin_port(service.settings)
        self.settings = service.settings
        self.pools = Pools(service)
        self.metrics = Metrics()
        self.job_ids = JobIds()
        self.logs_access = False
        self._kept: dict[str, LmstfyStore] = {}
        self._kept_names: set[tuple[str, str]] = set()

    def kept(self, pool: str) -> LmstfyStore:
        """What the wire keeps of a pool that there is, in the pool's own Redis."""
        if pool not in self._kept:
            service = self.pools.of(pool)
            assert service is not None
            self._kept[pool] = LmstfyStore(service.context.store, service.context.records.keys)
        return self._kept[pool]

    @cached_property
    def grants(self) -> Grants:
        return Grants(lambda holder: self.kept(holder.pool))

    async def keep_name(self, pool: str, topic: str, namespace: str, queue: str) -> None:
        """Keeps the names that can't be read from the topic, for lists.

        Raises:
            StoreUnavailable
        """
        if (pool, topic) not in self._kept_names:
            await self.kept(pool).keep_name(topic, namespace, queue)
            self._kept_names.add((pool, topic))

    async def queues(self, pool: str) -> Mapping[str, tuple[str, str]]:
        """Namespace and queue of a pool's topics that have both.

        Raises:
            StoreUnavailable
        """
        service = self.pools.of(pool)
        if service is None:
            return {}
        topics, cut = await service.topics.names(), await self.kept(pool or DEFAULT).names()
        found: dict[str, tuple[str, str]] = {}
        for topic in topics:
            namespace, slash, queue = topic.partition("/")
            if slash:
                found[topic] = cut.get(topic, (namespace, queue))
        return found

    async def measure(self) -> None:
        """Brings the sizes of queues up to date, as far as Redis answers."""
        for pool in self.pools.names():
            service = self.pools.of(pool)
            try:
                named = await self.queues(pool)
                infos = [] if service is None else await service.topics.infos()
            except Unavailable:
                continue
            sized: dict[tuple[str, str], TopicInfo] = {named[one.topic]: one for one in infos if one.topic in named}
            self.metrics.sized(pool, sized)

    def told(self, exchange: LmstfyRequest, status: int, took_s: float, *, counted: bool) -> None:
        """Notes how a request was answered."""
        pool, method = exchange.found.pool if exchange.found.service else "", exchange.request.method
        if counted:
            self.metrics.answered(
                pool or DEFAULT, exchange.found.namespace, exchange.route, method, status=status, took_s=took_s
            )
        if self.logs_access:
            # The query may have a token in it, and so may a path of the admin port.
            log.info(
                "lmstfy.request",
                pool=pool,
                method=method,
                path=exchange.request.scope["path"] if counted else exchange.route,
                status=status,
                took_ms=round(took_s * 1_000, 3),
                request_id=exchange.request_id,
            )


class Beside:
    """ASGI middleware: requests of this wire go to it, by the port they came in at or by their path, and all others on.

    The bridge's own tokens are not asked for: this wire has its own, and its clients can send no others.
    """

    def __init__(self, app: ASGIApp, *, wire: Wire) -> None:
        self._app = app
        self._api = Router(wire, API, missing=api_not_found, counted=True)
        self._by_port = {
            wire.settings.lmstfy_port: self._api,
            wire.settings.lmstfy_admin_port: Router(wire, ADMIN, missing=page_not_found, counted=False),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            port = (scope.get("server") or (None, None))[1]
            listener = self._by_port.get(port) if port is not None else None
            if listener is None and scope["path"].startswith("/api/"):
                listener = self._api
            if listener is not None:
                await listener(scope, receive, send)
                return
        await self._app(scope, receive, send)
