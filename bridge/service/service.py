"""The service: everything a front end needs, put together from settings, started and stopped as one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import structlog

from bridge import metrics
from bridge.broker.broker import Broker
from bridge.loops.watch import Watch
from bridge.model.errors import BridgeError, BrokerUnfit, StoreUnfit, Unavailable
from bridge.service.changing import Changing
from bridge.service.context import Context
from bridge.service.dead import Dead
from bridge.service.health import Health, together
from bridge.service.lookup import Lookup
from bridge.service.pulling import Pulling
from bridge.service.replacing import Replacing
from bridge.service.sending import Sending
from bridge.service.settling import Settling
from bridge.service.subscriptions import Subscriptions
from bridge.service.supervisor import Loop, supervise
from bridge.service.topics import Topics
from bridge.service.worker_rpc import WorkerRpc
from bridge.settings.pools import DEFAULT
from bridge.settings.settings import Settings
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.lmstfy import LmstfyStore
from bridge.store.records import Records
from bridge.store.task_ids import TaskIds
from bridge.store.topics_by_id import TopicsById

log = structlog.get_logger(__name__)


class Service:
    """The ways through; `assembly.py` adds the loops that run beside them."""

    def __init__(self, settings: Settings, *, pool: str = DEFAULT) -> None:
        """`settings`: those of the pool."""
        self.settings = settings
        self._broker = Broker(settings)
        keys = Keys(settings.redis_prefix, settings.index_buckets)
        self._store = Store(settings.redis_url, timeout_ms=settings.store_timeout, tls=settings.tls, keys=keys)
        records = Records(
            keys=keys,
            retention_ms=settings.retention,
            tombstone_ms=settings.tombstone_retention,
        )
        self.topics = Topics(self._store, records, self._broker.declared)
        self.context = context = Context(
            store=self._store, records=records, broker=self._broker, topics=self.topics, settings=settings, pool=pool
        )
        self.lookup = Lookup(context)
        self.sending = Sending(context)
        self.replacing = Replacing(context, self.sending)
        self.pulling = Pulling(context)
        self.settling = Settling(context, self.lookup)
        self.settling_tasks = Settling(_keeping(context, settings.task_retention), self.lookup)
        self.changing = Changing(context, self.lookup)
        self.dead = Dead(context, self.lookup)
        self.task_ids = TaskIds(self._store, records.keys)
        self.topics_by_id = TopicsById(self._store, records.keys)
        self.lmstfy = LmstfyStore(self._store, records.keys)
        self.subscriptions = Subscriptions(self._store, records, self.topics)
        self.watch = Watch(context)
        self.worker_rpc = WorkerRpc()
        for part, breaker in (("broker", self._broker.breaker), ("store", self._store.breaker)):
            metrics.BREAKER.labels(self._named(part)).set_function(partial(getattr, breaker, "state"))
        self._loops: list[Loop] = [self.watch]
        self._running: list[asyncio.Task[None]] = []
        self._draining = False

    @property
    def pools(self) -> Mapping[str, Service]:
        """The services of all pools, by name."""
        return {self.context.pool: self}

    def serving(self, topic: str) -> Service:
        """The service of the topic's pool."""
        return self

    def add(self, loop: Loop) -> None:
        """Runs the loop from `start` to `stop`."""
        self._loops.append(loop)

    async def start(self) -> None:
        """Starts the loops. A broker or store that is away is waited for by them; health says so meanwhile.

        Raises:
            BrokerUnfit: the promises can't be kept on this broker.
            StoreUnfit: Redis has the index in another number of buckets.
        """
        if self.context.pool != DEFAULT:
            # The loops take it with them, so that each line of a pool's log says so.
            structlog.contextvars.bind_contextvars(pool=self.context.pool)
        for reach in (self._broker.start, self._store.agree):
            try:
                await reach()
            except (BrokerUnfit, StoreUnfit) as error:
                log.error("service.refused", reason=str(error))  # noqa: TRY400 - the reason says it all
                raise
            except Unavailable as error:
                log.warning("service.waiting", reason=str(error))
        with suppress(Unavailable):
            await self._store.learn_clock()
        self._running = [asyncio.create_task(supervise(loop), name=loop.name) for loop in self._loops]
        self.listen()
        log.info("service.started")

    def drain(self) -> None:
        """Makes ready to stop: health says so, and nobody waits in a long poll any longer. All else goes on."""
        self._draining = True
        self.pulling.end_waits()

    async def stop(self) -> None:
        """Ends what is under way, hands back what was taken, and closes the connections."""
        self.worker_rpc.end()
        for running in self._running:
            running.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.grace / 1_000):
                await asyncio.gather(*self._running, self.sending.finish(), return_exceptions=True)
        await self._broker.close()
        await self._store.close()
        log.info("service.stopped")

    def listen(self) -> None:
        """Answers the siblings from now on."""

        async def health() -> Any:
            return asdict(await self.own_health())

        async def counted() -> Any:
            return metrics.counted_here()

        self.worker_rpc.listen({"health": health, "metrics": counted})

    async def health(self) -> Health:
        """Of this process and its siblings; of this one alone where it stops, as they do then and may be gone."""
        own = await self.own_health()
        return own if "process" in own.parts else together(own, await self.worker_rpc.ask("health"))

    async def exposition(self) -> tuple[bytes, str]:
        """What this process and its siblings count, for Prometheus, and its content type."""
        await self.gauge()
        return metrics.render(self.worker_rpc.name, await self.worker_rpc.ask("metrics"))

    async def own_health(self) -> Health:
        """Of this process."""
        servers = {
            "broker": await _said(self._broker.check()),
            "store": await _said(self._store.learn_clock()),
        }
        # A loop to which a frozen or blocked server gives nothing to do has not noticed yet.
        away = next((f"waiting: {state}" for state in servers.values() if state != "ok"), "ok")
        loops = {loop.name: away if loop.state == "ok" else loop.state for loop in self._loops}
        parts = {self._named(part): state for part, state in {**servers, **loops}.items()}
        if self._draining:
            parts["process"] = "stopping"
        for part, state in parts.items():
            metrics.UP.labels(part).set(state == "ok")
        return Health(
            ok=all(state == "ok" for state in parts.values()) and not self.watch.broken,
            parts=parts,
            findings=self.watch.findings,
            policies=self.watch.policies,
        )

    async def gauge(self) -> None:
        """Brings the gauges of messages by topic and state up to date, as far as Redis answers."""
        metrics.counted(await self.counts())

    async def counts(self) -> Mapping[tuple[str, str], int]:
        """Messages by topic and state, as far as Redis answers."""
        try:
            infos = await self.topics.infos()
        except Unavailable:
            return {}
        return {(info.topic, state): info.counts[state] for info in infos for state in ("waiting", "ready", "leased")}

    def _named(self, part: str) -> str:
        """The part's name among those of all pools."""
        return part if self.context.pool == DEFAULT else f"{self.context.pool}/{part}"


def _keeping(context: Context, retention_ms: int) -> Context:
    """With another time for which what has ended is kept."""
    tombstone_ms = max(retention_ms, context.records.tombstone_ms)
    return replace(context, records=replace(context.records, retention_ms=retention_ms, tombstone_ms=tombstone_ms))


async def _said(asked: Awaitable[None]) -> str:
    try:
        await asked
    except BridgeError as error:
        return str(error)
    return "ok"
