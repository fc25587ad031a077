"""Provides a sound system that nothing else uses: RabbitMQ, a Redis whose clock can lie, and a bridge."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest_asyncio

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from tests.command import command
from tests.forked_bridge import PATIENT, ForkedBridge
from tests.matrix.servers import Servers
from tests.torture.servers import TormentedRedis
from tests.torture.shim import Shim

Row = Mapping[str, Any]

PASSWORD = "horse-battery"


@dataclass(frozen=True, kw_only=True)
class System:
    """The servers, and the settings that the bridge and the doctor share."""

    rabbit: RabbitNode
    redis: TormentedRedis
    shim: Shim
    settings: Mapping[str, str]

    async def rows(self, *options: str, code: int | None, **other: str | None) -> list[Row]:
        """What the doctor finds with other settings. `code` None: it may end with any exit code."""
        settings = {**self.settings, **{f"BRIDGE_{name.upper()}": value for name, value in other.items()}}
        ended = await command("doctor", "--json", *options, settings=settings)  # type: ignore[arg-type]
        assert code in (None, ended.exit_code), ended.output
        assert PASSWORD not in ended.output
        return [json.loads(line) for line in ended.stdout.splitlines()]

    async def faults(self, **other: str | None) -> dict[int, str]:
        """What was found, by the number of the check. Only what the running bridge says of itself is left out."""
        rows = await self.rows(code=1, **other)
        return {row["check"]: row["found"] for row in rows if "remedy" in row and row["check"] < 400}

    @asynccontextmanager
    async def managing(self) -> AsyncIterator[httpx2.AsyncClient]:
        """A client of the management API."""
        async with httpx2.AsyncClient(base_url=f"{self.rabbit.management_url}/api/", timeout=60) as client:
            yield client


@pytest_asyncio.fixture(scope="module")
async def system(local_dir: Path, servers: Servers) -> AsyncIterator[System]:
    shim = Shim(local_dir / "shim", "redis")
    shim.build()
    rabbit, redis = servers.rabbit_node(local_dir / "rabbit-ill"), TormentedRedis(local_dir / "redis-ill", shim)
    port = free_ports(1)[0]
    settings = {
        "BRIDGE_AMQP_URL": rabbit.amqp_url,
        "BRIDGE_MANAGEMENT_URL": rabbit.management_url,
        "BRIDGE_REDIS_URL": redis.url,
        "BRIDGE_HTTP_PORT": str(port),
        "BRIDGE_VERIFY_EVERY": "0",  # the bridge repairs nothing while it runs
        **PATIENT,
    }
    bridge = ForkedBridge(local_dir / "bridge-ill.log", port, settings)
    try:
        await asyncio.gather(*(asyncio.to_thread(server.start) for server in (rabbit, redis)))
        await asyncio.to_thread(bridge.start)
        yield System(rabbit=rabbit, redis=redis, shim=shim, settings=settings)
    finally:
        for server in (bridge, redis, rabbit):
            await asyncio.to_thread(server.kill)
