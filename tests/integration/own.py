"""A bridge of a test's own, on a virtual host of its own: what happens to it hurts no other test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import aio_pika
import httpx2

from bridge.local.bridge import BridgeProcess
from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from tests.integration.amqp import Amqp
from tests.integration.topic import Topic


@dataclass(frozen=True, kw_only=True, slots=True)
class Own:
    bridge: BridgeProcess
    amqp: Amqp
    topic: Topic
    vhost: str
    settings: dict[str, str]  # for further bridges beside it


@asynccontextmanager
async def own_bridge(rabbit: RabbitNode, redis_url: str, folder: Path, **further: str) -> AsyncIterator[Own]:
    """Starts it, with further settings, and takes it and its virtual host away."""
    name = f"own-{uuid4().hex[:12]}"
    settings = {
        "BRIDGE_AMQP_URL": f"{rabbit.amqp_url}{name}",
        "BRIDGE_REDIS_URL": redis_url,
        "BRIDGE_REDIS_PREFIX": name,
        **further,
    }
    bridge = BridgeProcess(folder / name / "bridge.log", free_ports(1)[0], settings)
    async with httpx2.AsyncClient(base_url=f"{rabbit.management_url}/api/", timeout=60) as management:
        (await management.put(f"vhosts/{name}")).raise_for_status()
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        (await management.put(f"permissions/{name}/guest", json=everything)).raise_for_status()
        await asyncio.to_thread(bridge.start)
        try:
            async with (
                httpx2.AsyncClient(base_url=bridge.url, timeout=90) as client,
                await aio_pika.connect(settings["BRIDGE_AMQP_URL"]) as connection,
            ):
                yield Own(
                    bridge=bridge,
                    amqp=Amqp(connection),
                    topic=Topic(client, f"own-{uuid4().hex[:12]}"),
                    vhost=name,
                    settings=settings,
                )
        finally:
            # Its data goes: nothing is gained by the second that a graceful stop takes.
            await asyncio.to_thread(bridge.kill)
        (await management.delete(f"vhosts/{name}")).raise_for_status()
