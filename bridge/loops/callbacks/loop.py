"""The loop that has a worker for each subscription, and follows what is made, changed, removed and ended."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass

import structlog

from bridge.loops.callbacks.caller import Caller
from bridge.loops.callbacks.destinations import Destinations
from bridge.loops.callbacks.dns import Names
from bridge.loops.callbacks.worker import Worker
from bridge.model.errors import Unavailable
from bridge.service.service import Service
from bridge.service.subscriptions import Subscription
from bridge.service.supervisor import waiting

log = structlog.get_logger(__name__)

_LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class _Working:
    subscription: Subscription
    worker: Worker
    task: asyncio.Task[None]


class Push:
    name = "push"

    def __init__(self, service: Service) -> None:
        settings = service.settings
        self._service = service
        self._subscriptions = service.subscriptions
        self._destinations = Destinations(settings.task_services or {})
        self._allowed = settings.push_allow or ()
        self._names = Names()
        self._tls = ssl.create_default_context()
        if settings.tls_ca is not None:
            self._tls.load_verify_locations(settings.tls_ca)
        self._working: dict[str, _Working] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._version: bytes | None = None
        self._known = False
        self.state = "starting"

    async def run(self) -> None:
        """Runs for ever; servers that go away are waited for. A receiver that is away is no reason to be unready."""
        try:
            while True:
                try:
                    await self.run_once()
                    self.state = "ok"
                except Unavailable as error:
                    if self.state in ("ok", "starting"):
                        log.warning("push.waiting", reason=str(error))
                    self.state = waiting(error)
                await asyncio.sleep(_LOOK_EVERY_S)
        except asyncio.CancelledError:
            await self._end()
            raise

    async def run_once(self) -> None:
        """Brings the workers into line with the subscriptions, where these are others.

        Raises:
            Unavailable: they go on as they are.
        """
        version = await self._subscriptions.version()
        idle = [topic for topic, working in self._working.items() if working.task.done()]
        if (self._known and version == self._version and not idle) or self._service.pulling.draining:
            return
        wanted = {one.topic: one for one in await self._subscriptions.all() if not one.ended_ms}
        for topic, working in list(self._working.items()):
            if topic in idle or wanted.get(topic) != working.subscription:
                self._stop(topic)
        for topic, subscription in wanted.items():
            if topic not in self._working:
                self._start(subscription)
        self._version, self._known = version, True

    def _start(self, subscription: Subscription) -> None:
        service = self._service
        worker = Worker(
            subscription,
            pulling=service.pulling,
            settling=service.settling if subscription.url is not None else service.settling_tasks,
            subscriptions=self._subscriptions,
            destinations=self._destinations,
            caller=Caller(self._names, self._allowed, self._tls, connections=subscription.concurrency),
            clock=service.context.store.clock,
        )
        task = asyncio.create_task(_until_it_ends(worker))
        self._working[subscription.topic] = _Working(subscription, worker, task)
        log.info("push.started", topic=subscription.topic)

    def _stop(self, topic: str) -> None:
        """Its calls under way end as they would have."""
        working = self._working.pop(topic)
        working.worker.stop()
        self._ending.add(working.task)
        working.task.add_done_callback(self._ending.discard)
        log.info("push.stopped", topic=topic)

    async def _end(self) -> None:
        """Of the process: calls under way end as they would have, and those that take too long are cut off."""
        self._service.pulling.end_waits()
        for topic in list(self._working):
            self._stop(topic)
        ending = set(self._ending)
        try:
            if ending:
                await asyncio.wait(ending)
        finally:
            for task in ending:
                task.cancel()
            self._names.close()


async def _until_it_ends(worker: Worker) -> None:
    try:
        await worker.run()
    except Exception:
        # It is begun anew with the next look.
        log.exception("push.worker_failed", topic=worker.topic)
