"""Provides a bridge with two further pools: `eu` on servers that tests kill, `us` on the run's under other names."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest
import pytest_asyncio

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.fault.stage import start_all
from tests.forked_bridge import ForkedBridge
from tests.integration.own import own_bridge
from tests.integration.topic import Topic
from tests.matrix.servers import Servers
from tests.shared_servers import vhost_url


@dataclass(frozen=True, kw_only=True, slots=True)
class Pooled:
    """The namespace `shop` belongs to the pool `eu`, and `uk` to `us`."""

    bridge: ForkedBridge
    client: httpx2.AsyncClient
    lmstfy_port: int
    lmstfy_admin_port: int
    amqp_url: str  # of the default pool
    eu_rabbit: RabbitNode
    eu_redis: RedisNode
    us_prefix: str

    def topic(self, namespace: str = "") -> Topic:
        return Topic(self.client, f"{namespace}/{uuid4().hex}" if namespace else uuid4().hex)

    async def ready(self) -> httpx2.Response:
        return await self.client.get("/health/ready")

    async def metric(self, name: str) -> float:
        exposition = (await self.client.get("/metrics")).text
        (value,) = (line.rpartition(" ")[2] for line in exposition.splitlines() if line.startswith(f"{name} "))
        return float(value)


@pytest.fixture(scope="module")
def eu(local_dir: Path, servers: Servers) -> Iterator[tuple[RabbitNode, RedisNode]]:
    rabbit, redis = servers.rabbit_node(local_dir / "eu-rabbitmq"), servers.redis_node(local_dir / "eu-redis")
    try:
        start_all(rabbit, redis)
        yield rabbit, redis
    finally:
        rabbit.kill()
        redis.kill()


@pytest_asyncio.fixture(scope="module")
async def pooled(
    eu: tuple[RabbitNode, RedisNode], rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path
) -> AsyncIterator[Pooled]:
    port, admin_port = free_ports(2)
    us_prefix = f"us-{uuid4().hex[:12]}"
    pools = {
        "eu": {"amqp_url": eu[0].amqp_url, "redis_url": eu[1].url, "namespaces": ["shop"]},
        "us": {
            "amqp_url": rabbit.amqp_url,
            "redis_url": redis_node.url,
            "management_url": rabbit.management_url,
            "namespaces": ["uk"],
            "prefix": us_prefix,
        },
    }
    further = {
        "BRIDGE_POOLS": json.dumps(pools),
        "BRIDGE_LMSTFY_PORT": str(port),
        "BRIDGE_LMSTFY_ADMIN_PORT": str(admin_port),
        "BRIDGE_STORE_TIMEOUT": "4s",  # a frozen Redis takes it several times
    }
    async with own_bridge(rabbit, redis_node.url, local_dir / "pools", **further) as own:
        yield Pooled(
            bridge=own.bridge,
            client=own.topic.client,
            lmstfy_port=port,
            lmstfy_admin_port=admin_port,
            amqp_url=vhost_url(rabbit, own.vhost),
            eu_rabbit=eu[0],
            eu_redis=eu[1],
            us_prefix=us_prefix,
        )
