"""Builds all objects that one pool needs to serve its topics, and starts and stops the pool's loops."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from bridge.broker.broker import Broker
from bridge.broker.declared.findings import Finding
from bridge.metrics.process import BREAKER, UP
from bridge.model import background
from bridge.model.errors import BrokerUnfit, StoreUnfit, Unavailable
from bridge.model.part_state import Ok, Waiting, text_of
from bridge.service.actions import Actions
from bridge.service.bulk.changes import Changes
from bridge.service.changing import Changing
from bridge.service.context import Context
from bridge.service.dead.dead import Dead
from bridge.service.health.health import NOT_WATCHED, Health, Watching, failures, serves
from bridge.service.health.lookout import Lookout
from bridge.service.health.probed import Probed
from bridge.service.health.scraped import Figures, Scraped
from bridge.service.health.supervisor import Loop, Reported
from bridge.service.known_topics import KnownTopics
from bridge.service.pulling.pulling import Pulling
from bridge.service.pulling.unacked_leases import UnackedLeases
from bridge.service.reading.lookup import Lookup
from bridge.service.reading.timelines import Timelines
from bridge.service.sending.repeats import Repeats
from bridge.service.sending.replacing import Replacing
from bridge.service.sending.sending import Sending
from bridge.service.sending.upserting import Upserting
from bridge.service.settling import Settling
from bridge.service.topics.policies import Policies
from bridge.service.topics.subscriptions import Subscriptions
from bridge.service.topics.topics import Topics
from bridge.service.topics.unroutable import Unroutable
from bridge.settings.pools import DEFAULT
from bridge.settings.settings import Settings
from bridge.store.client import Store
from bridge.store.clock import StoreClock
from bridge.store.kept.given_names import GivenNames
from bridge.store.kept.lmstfy import LmstfyStore
from bridge.store.kept.sessions import StoredSessions
from bridge.store.kept.task_ids import TaskIds
from bridge.store.kept.topic_list import TopicList
from bridge.store.kept.topics_by_id import TopicsById
from bridge.store.keys import Keys
from bridge.store.messages.records import Records
from bridge.store.unnamed import Unnamed

if TYPE_CHECKING:
    from bridge.tracing.deliveries import Deliveries

log = structlog.get_logger(__name__)

_CANCEL_AGAIN_S: Final = 0.5


class Service:
    """Serves the messages and topics of one pool. `cli/assembly.py` adds the loops."""

    def __init__(self, settings: Settings, *, pool: str = DEFAULT, tracing: Deliveries | None = None) -> None:
        """`settings`: the pool's settings. `tracing`: traces deliveries; None: deliveries are not traced."""
        self.settings = settings
        keys = Keys(settings.redis_prefix, settings.index_buckets)
        # The loops have connections of their own, so that they never wait behind requests. Both stores share one clock:
        # each answer makes it more exact, and the loops get few answers.
        clock, unnamed = StoreClock(), Unnamed()
        self._store, self._loops_store = (
            Store(
                settings.redis_url,
                timeout_ms=settings.store_timeout,
                tls=settings.tls,
                keys=keys,
                clock=clock,
                unnamed=unnamed,
            )
            for _ in range(2)
        )
        self._broker = Broker(settings, TopicList(self._loops_store, keys).not_removed, tracing)
        records = Records(
            keys=keys,
            retention_ms=settings.retention,
            tombstone_ms=settings.tombstone_retention,
            timelines=settings.timeline,
        )
        policies = Policies(self._store, keys, self._broker.declared, settings.topic_defaults)
        self.topics = Topics(
            self._store,
            records,
            self._broker.declared,
            policies,
            Unroutable(self._broker.declared, self._broker.dead_letter_search),
        )
        self.context = context = Context(
            store=self._store,
            records=records,
            broker=self._broker,
            topics=self.topics,
            settings=settings,
            pool=pool,
            tracing=tracing,
        )
        self.loops_context = replace(context, store=self._loops_store, topics=self.topics.over(self._loops_store))
        self.lookup = Lookup(context)
        self.timelines = Timelines(context)
        self.sending = Sending(context)
        self.replacing = Replacing(context, self.sending)
        self.upserting = Upserting(context, self.sending, self.replacing)
        known_topics = KnownTopics(context)
        unacked = UnackedLeases(context)
        self.pulling = Pulling(context, known_topics, unacked)
        self.settling = Settling(context, self.lookup, unacked)
        self.settling_tasks = Settling(_with_retention(context, settings.task_retention), self.lookup, unacked)
        self.changing = Changing(context)
        self.changes = Changes(context)
        self.dead = Dead(context, self.lookup, known_topics)
        self.actions = Actions(self._store, records.keys)
        self.repeats = Repeats(context)
        self.task_ids = TaskIds(self._store, records.keys)
        self.topics_by_id = TopicsById(self._store, records.keys)
        self.given_names = GivenNames(self._store, records.keys)
        self.sessions = StoredSessions(self._store, records.keys)
        self.lmstfy = LmstfyStore(self._store, records.keys)
        self.subscriptions = Subscriptions(self._store, records, self.topics)
        for part, servers in (("broker", (self._broker,)), ("store", (self._store, self._loops_store))):
            BREAKER.labels(context.part_name(part)).set_function(partial(_most_open, servers))
        within_s = settings.answer_within_s
        self._broker_probe = Probed(
            self._broker.probe,
            lambda: self._broker.breaker.troubled_s,
            server="RabbitMQ",
            part=context.part_name("broker"),
            within_s=within_s,
        )
        self._store_probe = Probed(
            self._probe_store,
            lambda: max(self._store.troubled_s, self._loops_store.troubled_s),
            server="Redis",
            part=context.part_name("store"),
            within_s=within_s,
        )
        self._scraped = Scraped(context, clock)
        self._watch: Watching = NOT_WATCHED
        lookout = Lookout(
            context.part_name("probes"),
            (self._broker_probe, self._store_probe),
            lambda: any(isinstance(loop.status.state, Waiting) for loop in self._loops),
        )
        self._loops: list[Loop] = [lookout]
        self._beside: tuple[Reported, ...] = (unacked.status,)
        self._running: list[asyncio.Task[None]] = []
        self._draining = False

    def add(self, loop: Loop) -> None:
        """Adds a loop, which runs from `start` to `stop`."""
        self._loops.append(loop)

    def report(self, watch: Watching) -> None:
        """Makes the findings of the loop that inspects RabbitMQ and Redis part of the health."""
        self._watch = watch

    @property
    def alive(self) -> bool:
        """Whether every loop runs. A loop that waits for a server also runs."""
        return not any(task.done() for task in self._running)

    async def start(self) -> None:
        """Connects, and starts the loops. While a server is away, the loops wait for it, and health reports this.

        Raises:
            BrokerUnfit: this RabbitMQ can't keep the bridge's promises.
            StoreUnfit: the index in Redis has another number of buckets.
        """
        if self.context.pool != DEFAULT:
            # The loops' tasks inherit this variable, so each of their log lines names the pool.
            structlog.contextvars.bind_contextvars(pool=self.context.pool)
        await self.connect()
        self._running = [asyncio.create_task(loop.run(), name=loop.status.name) for loop in self._loops]
        log.info("service.started")

    async def connect(self) -> None:
        """Connects to RabbitMQ and Redis, and checks them. Commands of the CLI call only this, and start no loops. A
        server that is away is only logged.

        Raises:
            BrokerUnfit: this RabbitMQ can't keep the bridge's promises.
            StoreUnfit: the index in Redis has another number of buckets.
        """
        for connect in (self._broker.start, self._store.agree):
            try:
                await connect()
            except (BrokerUnfit, StoreUnfit) as error:
                log.error("service.refused", reason=str(error))  # noqa: TRY400 - the reason needs no traceback
                raise
            except Unavailable as error:
                log.warning("service.waiting", reason=str(error))
        with suppress(Unavailable):
            await self._store.learn_clock()

    def drain(self) -> None:
        """Prepares for the stop: health reports that the process stops. Long polls end, and so do calls that work on
        many dead letters. All other work goes on."""
        self._draining = True
        self.pulling.end_waits()
        self.dead.end_sweeps()

    async def stop(self) -> None:
        """Stops the loops, waits for sends and pulls in flight, and closes the connections. After the grace period (the
        setting `grace`) it cancels the tasks that have not ended."""
        for running in self._running:
            running.cancel()
        ending = [
            *self._running,
            *map(asyncio.create_task, (self.upserting.finish(), self.sending.finish(), self.pulling.finish())),
        ]
        # Not `asyncio.timeout`: if the process was starved of CPU for the grace period, its cancellation would come
        # together with the first one. Then a loop that waits for its work would wait for ever.
        _, late = await asyncio.wait(ending, timeout=self.settings.grace / 1_000)
        while late:
            # Cancelled repeatedly: a library may raise another error in place of the cancellation.
            for task in late:
                task.cancel()
            _, late = await asyncio.wait(late, timeout=_CANCEL_AGAIN_S)
        for task in ending:
            background.ended("stop", task)
        await self.close()
        log.info("service.stopped")

    async def close(self) -> None:
        """Closes the connections of a service that has not started, or has stopped its loops."""
        for probed in (self._broker_probe, self._store_probe):
            probed.end()
        await self._broker.close()
        for store in (self._store, self._loops_store):
            await store.close()

    async def health(self) -> Health:
        """Returns the health of this pool in this process. Probes RabbitMQ and Redis, to see whether a send would
        succeed now. A good answer of the last half second counts too, unless a call has failed since."""
        broker, store = await asyncio.gather(self._broker_probe.result(), self._store_probe.result())
        servers = {"broker": broker.state, "store": store.state}
        await self._scraped.show_servers(servers)
        states = {reported.name: reported.state for reported in (*(loop.status for loop in self._loops), *self._beside)}
        # A frozen or blocked server gives a loop no work, so the loop itself has not noticed yet.
        away = next((f"waiting: {state}" for state in servers.values() if state != "ok"), "ok")
        parts = {self.context.part_name(part): state for part, state in servers.items()}
        parts |= {part: away if isinstance(state, Ok) else text_of(state) for part, state in states.items()}
        if self._draining:
            parts["process"] = "stopping"
        for part, text in parts.items():
            UP.labels(part).set(text == "ok")
        is_ready = (
            not self._draining
            and away == "ok"
            and all(serves(part, state) for part, state in states.items())
            and not self._watch.broken
        )
        of_servers = [*self._watch.findings, *broker.findings, *store.findings]
        self._scraped.show_findings(of_servers)
        findings = [*of_servers, *failures(states)]
        return Health(ok=is_ready, parts=parts, findings=findings, policies=self._watch.policies)

    async def _probe_store(self) -> list[Finding]:
        # The loops' connections are probed only to renew them: a loop that only reads would not notice a demoted
        # primary.
        found, _ = await asyncio.gather(self._store_findings(), self._loops_store.probe(), return_exceptions=True)
        if isinstance(found, BaseException):
            raise found
        return found

    async def _store_findings(self) -> list[Finding]:
        away = await self._store.probe()
        await self._store.learn_clock()
        return [Finding("warning", f"{error}: calls about its topics are refused, others go on") for error in away]

    async def figures(self) -> Figures:
        """Returns the numbers of messages of this pool, for metrics. Asks RabbitMQ and Redis now. Leaves out the
        figures of a server that does not answer."""
        figures = await self._scraped.figures((await self.health()).parts)
        if not figures.whole:
            # A server froze after its probe, whose result is still fresh. So probe again.
            for probed in (self._broker_probe, self._store_probe):
                probed.renew()
            await self.health()
        return figures


def _with_retention(context: Context, retention_ms: int) -> Context:
    """Returns the context with another retention time for ended messages."""
    tombstone_ms = max(retention_ms, context.records.tombstone_ms)
    return replace(context, records=replace(context.records, retention_ms=retention_ms, tombstone_ms=tombstone_ms))


def _most_open(servers: Iterable[Broker | Store]) -> float:
    return max(server.breaker.state for server in servers)
