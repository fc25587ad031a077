"""Tests a pull that fails after its client has left."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from bridge.model.message import Envelope
from bridge.model.values import Draft
from bridge.service.service import Service
from bridge.store.calls import Call
from tests.forked_bridge import PATIENCE
from tests.inside.running import running
from tests.inside.stage import AnyProxy, Stage

TOPIC = "left"


async def test_a_lease_that_fails_after_its_client_left_is_no_unhandled_error(stage: Stage) -> None:
    unhandled: list[dict[str, Any]] = []
    gc.collect()  # what crashed bridges of earlier tests left pending
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    async with stage.proxy(stage.redis_url) as redis, running(stage, redis_url=redis.url, **PATIENCE) as service:
        await service.sending.send(Draft(topic=TOPIC, id="it", envelope=Envelope(body=b"1")))
        asked = silent_from_lease(service, redis)
        pull = asyncio.create_task(service.pulling.pull([TOPIC], limit=1, wait_ms=10_000, lease_ms=30_000))
        await asked.wait()
        pull.cancel()
        with suppress(asyncio.CancelledError):
            await pull
        await service.pulling._tools.finish()
        gc.collect()
        redis.speak()
    asyncio.get_running_loop().set_exception_handler(None)
    assert unhandled == []


def silent_from_lease(service: Service, redis: AnyProxy) -> asyncio.Event:
    """Lets Redis fall silent as soon as a lease is asked for. Returns the event of that."""
    store, asked = service.context.store, asyncio.Event()
    run = store.run

    async def silencing(calls: Sequence[Call[Any]], until_s: float | None = None) -> list[Any]:
        if any(call.script.name == "lease" for call in calls):
            redis.fall_silent()
            asked.set()
        return await run(calls, until_s)

    store.run = silencing  # type: ignore[method-assign]
    return asked
