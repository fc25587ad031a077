"""A bridge in this process, whose steps can be held up and made to fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from bridge.assembly import assemble
from bridge.service.service import Service
from bridge.settings import Settings
from bridge.store.client import Call
from tests.fault.stage import Stage


@asynccontextmanager
async def running(stage: Stage, **settings: Any) -> AsyncIterator[Service]:
    """A service on these servers. It may be stopped before the end."""
    service = assemble(Settings(amqp_url=stage.rabbit.amqp_url, redis_url=stage.redis.url, camellia=False, **settings))
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


class Gate:
    """Before a script: whoever gets there waits until it is opened."""

    def __init__(self, service: Service, script: str) -> None:
        self.reached = asyncio.Event()
        self._open = asyncio.Event()
        store = service.parts.store
        run = store.run

        async def waiting(calls: Sequence[Call]) -> list[Any]:
            if any(call.script.name == script for call in calls):
                self.reached.set()
                await self._open.wait()
            return await run(calls)

        store.run = waiting  # type: ignore[method-assign]

    def open(self) -> None:
        self._open.set()
