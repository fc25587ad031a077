"""Starts a bridge for one test or module, on a virtual host and a key prefix that nothing else uses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self
from uuid import uuid4

import aio_pika
import httpx2

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from tests.forked_bridge import PATIENT, ForkedBridge
from tests.integration.amqp import Amqp
from tests.integration.topic import Topic
from tests.shared_servers import vhost_url
from tests.vhosts import give_back_vhost, take_vhost


@dataclass(frozen=True, kw_only=True, slots=True)
class Own:
    bridge: ForkedBridge
    amqp: Amqp
    topic: Topic
    vhost: str
    settings: dict[str, str]  # for further bridges beside it

    def with_fresh_topic(self) -> Self:
        """Returns the same bridge for another test, with a topic that no other test uses."""
        return replace(self, topic=Topic(self.topic.client, f"own-{uuid4().hex[:12]}"))


@asynccontextmanager
async def own_bridge(rabbit: RabbitNode, redis_url: str, folder: Path, **further: str) -> AsyncIterator[Own]:
    """Starts a bridge with further settings on a virtual host that nothing else uses. Kills it at the end."""
    vhost = await asyncio.to_thread(take_vhost, rabbit)
    prefix = f"own-{uuid4().hex[:12]}"
    settings = {
        "BRIDGE_AMQP_URL": vhost_url(rabbit, vhost),
        "BRIDGE_REDIS_URL": redis_url,
        "BRIDGE_REDIS_PREFIX": prefix,
        **PATIENT,
        **further,
    }
    bridge = ForkedBridge(folder / prefix / "bridge.log", free_ports(1)[0], settings)
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
                vhost=vhost,
                settings=settings,
            )
    finally:
        # Nobody needs its data, so a graceful stop would only cost a second.
        await asyncio.to_thread(bridge.kill)
    await asyncio.to_thread(give_back_vhost, rabbit, vhost)
