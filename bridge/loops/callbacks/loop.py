"""Runs a worker for each subscription, and follows the subscriptions as they change."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import structlog

from bridge.loops.callbacks.client import Client
from bridge.loops.callbacks.delivery import Delivery
from bridge.loops.callbacks.destinations import Destinations
from bridge.loops.callbacks.resolver import Resolver
from bridge.loops.callbacks.worker import Worker
from bridge.service.health.supervisor import Joined, Status, retrying
from bridge.service.service import Service
from bridge.service.topics.subscriptions import Subscription

log = structlog.get_logger(__name__)

_LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class _Running:
    subscription: Subscription
    worker: Worker
    task: asyncio.Task[None]


class Loop:
    def __init__(self, service: Service) -> None:
        settings = service.settings
        self._service = service
        self._subscriptions = service.subscriptions
        self._destinations = Destinations(settings.task_services or {})
        self._allowed = settings.push_allow or ()
        self._resolver = Resolver()
        self._tls_ca = settings.tls_ca
        self._running: dict[str, _Running] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._version: bytes | None = None
        self._known = False
        self._name = service.context.part_name("push")
        self._following = Status(self._name, retry_s=_LOOK_EVERY_S)
        self.status = Joined(
            self._name, lambda: (self._following, *(running.worker.status for running in self._running.values()))
        )

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Trusts the system's authorities, and the one of the servers. The first subscription makes the context, as
        that takes 20 ms."""
        context = ssl.create_default_context()
        if self._tls_ca is not None:
            context.load_verify_locations(self._tls_ca)
        return context

    async def run(self) -> NoReturn:
        """Keeps the workers running for ever, and waits for servers that are away. A failing receiver does not make the
        process unready."""
        try:
            await retrying(self._following, self._follow)
        finally:
            await self._end()

    async def _follow(self) -> float:
        await self.run_once()
        return _LOOK_EVERY_S

    async def run_once(self) -> None:
        """Starts and stops workers if the subscriptions have changed.

        Raises:
            Unavailable: Redis did not answer; the running workers go on.
        """
        version = await self._subscriptions.version()
        idle = [topic for topic, running in self._running.items() if running.task.done()]
        if (self._known and version == self._version and not idle) or self._service.pulling.draining:
            return
        active = {
            subscription.topic: subscription
            for subscription in await self._subscriptions.all()
            if not subscription.ended_ms
        }
        for topic, running in list(self._running.items()):
            if topic in idle or active.get(topic) != running.subscription:
                self._stop(topic)
        for topic, subscription in active.items():
            if topic not in self._running:
                self._start(subscription)
        self._version, self._known = version, True

    def _start(self, subscription: Subscription) -> None:
        service = self._service
        stopping = asyncio.Event()
        delivery = Delivery(
            subscription,
            settling=service.settling if subscription.url is not None else service.settling_tasks,
            subscriptions=self._subscriptions,
            destinations=self._destinations,
            client=Client(self._resolver, self._allowed, self._tls, connections=subscription.concurrency),
            clock=service.context.store.clock,
            stopping=stopping,
            queue=service.context.broker.declared.ready_queue(subscription.topic),
            tracing=service.context.tracing,
        )
        worker = Worker(subscription, pulling=service.pulling, delivery=delivery, stopping=stopping, name=self._name)
        task = asyncio.create_task(worker.run())
        self._running[subscription.topic] = _Running(subscription, worker, task)
        log.info("push.started", topic=subscription.topic)

    def _stop(self, topic: str) -> None:
        """Stops a worker. Its calls in flight continue to their end."""
        running = self._running.pop(topic)
        running.worker.stop()
        self._ending.add(running.task)
        running.task.add_done_callback(self._ending.discard)
        log.info("push.stopped", topic=topic)

    async def _end(self) -> None:
        """Stops all workers and waits for their calls in flight. A second cancellation cancels those calls."""
        self._service.pulling.end_waits()
        for topic in list(self._running):
            self._stop(topic)
        ending = set(self._ending)
        try:
            if ending:
                await asyncio.wait(ending)
        finally:
            for task in ending:
                task.cancel()
            self._resolver.close()
