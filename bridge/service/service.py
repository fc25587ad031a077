"""The service: everything a front end needs, put together from settings, started and stopped as one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import structlog

from bridge import metrics
from bridge.broker.broker import Broker
from bridge.errors import BridgeError, BrokerUnfit, Unavailable
from bridge.service.changing import Changing
from bridge.service.dead import Dead
from bridge.service.looking import Looking
from bridge.service.loops import Loop, supervise
from bridge.service.parts import Parts
from bridge.service.pulling import Pulling
from bridge.service.sending import Sending
from bridge.service.settling import Settling
from bridge.service.topics import Topics
from bridge.settings import Settings
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.records import Records

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """`parts`: broker, store and each loop, "ok" or why not."""

    ok: bool
    parts: Mapping[str, str]


class Service:
    """The ways through; `assembly.py` adds the loops that run beside them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._broker = Broker(settings)
        self._store = Store(settings.redis_url, timeout_ms=settings.store_timeout)
        records = Records(
            keys=Keys(settings.redis_prefix),
            retention_ms=settings.retention,
            tombstone_ms=settings.tombstone_retention,
        )
        self.topics = Topics(self._store, records, self._broker.objects)
        self.parts = parts = Parts(
            store=self._store, records=records, broker=self._broker, topics=self.topics, settings=settings
        )
        self.looking = Looking(parts)
        self.sending = Sending(parts)
        self.pulling = Pulling(parts)
        self.settling = Settling(parts, self.looking)
        self.changing = Changing(parts, self.looking)
        self.dead = Dead(parts, self.looking)
        self._loops: list[Loop] = []
        self._running: list[asyncio.Task[None]] = []

    def add(self, loop: Loop) -> None:
        """Runs the loop from `start` to `stop`."""
        self._loops.append(loop)

    async def start(self) -> None:
        """Starts the loops. A broker or store that is away is waited for by them; health says so meanwhile.

        Raises:
            BrokerUnfit: the promises can't be kept on this broker.
        """
        try:
            for finding in await self._broker.start():
                log.warning("broker.finding", finding=finding)
        except BrokerUnfit as error:
            log.error("service.refused", reason=str(error))  # noqa: TRY400 - the reason says it all
            raise
        except Unavailable as error:
            log.warning("service.waiting", reason=str(error))
        with suppress(Unavailable):
            await self._store.learn_clock()
        self._running = [asyncio.create_task(supervise(loop), name=loop.name) for loop in self._loops]
        log.info("service.started")

    async def stop(self) -> None:
        """Ends what is under way, hands back what was taken, and closes the connections."""
        for running in self._running:
            running.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.grace / 1_000):
                await asyncio.gather(*self._running, self.sending.finish(), return_exceptions=True)
        await self._broker.close()
        await self._store.close()
        log.info("service.stopped")

    async def health(self) -> Health:
        parts = {
            "broker": await _said(self._broker.check()),
            "store": await _said(self._store.learn_clock()),
            **{loop.name: loop.state for loop in self._loops},
        }
        for part, state in parts.items():
            metrics.UP.labels(part).set(state == "ok")
        return Health(ok=all(state == "ok" for state in parts.values()), parts=parts)

    async def gauge(self) -> None:
        """Brings the gauges of breakers, and of messages by topic and state as far as Redis answers, up to date."""
        with suppress(Unavailable):
            for info in await self.topics.infos():
                for state in ("waiting", "ready", "leased"):
                    metrics.MESSAGES.labels(info.topic, state).set(info.counts[state])
        for part, breaker in (("broker", self._broker.breaker), ("store", self._store.breaker)):
            metrics.BREAKER.labels(part).set(breaker.state)


async def _said(asked: Awaitable[None]) -> str:
    try:
        await asked
    except BridgeError as error:
        return str(error)
    return "ok"
