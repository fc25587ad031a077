"""Runs a bridge of one version of the code, and measures its work."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Final

import httpx2

from benchmarks.client import Api, opened
from bridge.local.bridge import BridgeProcess
from bridge.local.errors import LocalError
from bridge.local.ports import free_ports
from bridge.local.rabbitmq import USER, RabbitNode
from bridge.local.redis import RedisNode
from tests.guard.meter import Meter, meter
from tests.guard.verdict import Measured
from tests.guard.work import CONNECTIONS, WORKS

_TOPIC: Final = "guard"


class Rival(BridgeProcess):
    """A bridge of the code in a folder."""

    def __init__(self, code: Path, folder: Path, settings: dict[str, str]) -> None:
        alike = {"PYTHONPATH": str(code), "PYTHONHASHSEED": "0", "BRIDGE_AUDIT_EVERY": "0"}
        super().__init__(folder / "bridge.log", free_ports(1)[0], settings | alike)

    def command(self) -> list[str]:
        # -P: Python must not import the modules of the current folder.
        return [sys.executable, "-P", "-m", "bridge", "serve"]

    def runs(self) -> Path:
        """The folder from which the program imports its code."""
        asking = [sys.executable, "-P", "-c", "import bridge; print(bridge.__path__[0])"]
        said = subprocess.run(asking, env=self.environment(), capture_output=True, text=True, check=True)
        return Path(said.stdout.strip()).parent


class Competitor:
    """A running bridge with its meter."""

    def __init__(self, bridge: Rival, api: Api) -> None:
        self._api = api
        self.meter: Meter = meter(bridge.pid)

    async def measured(self, work: str) -> Measured:
        used, began_s = self.meter.read(), perf_counter()
        messages = await WORKS[work](self._api, _TOPIC)
        return Measured(
            cost=(self.meter.read() - used) / messages,
            seconds=(perf_counter() - began_s) / messages,
        )


@asynccontextmanager
async def competing(
    code: Path, name: str, rabbit: RabbitNode, redis: RedisNode, folder: Path
) -> AsyncIterator[Competitor]:
    """Starts a bridge of the code in `code`, with a private virtual host and key prefix.

    Raises:
        LocalError: it does not start, or it would run other code.
    """
    vhost = f"{folder.parent.name}-{name}"
    await _make_vhost(rabbit, vhost)
    settings = {
        "BRIDGE_AMQP_URL": f"{rabbit.amqp_url}/{vhost}",
        "BRIDGE_REDIS_URL": redis.url,
        "BRIDGE_REDIS_PREFIX": vhost,
    }
    bridge = Rival(code, folder, settings)
    if bridge.runs() != code:
        raise LocalError(f"{bridge.runs()} would be measured in place of {code}")
    await asyncio.to_thread(bridge.start)
    try:
        async with opened(bridge.url, connections=CONNECTIONS) as api:
            yield Competitor(bridge, api)
    finally:
        bridge.kill()


async def _make_vhost(rabbit: RabbitNode, name: str) -> None:
    async with httpx2.AsyncClient(base_url=f"{rabbit.management_url}/api/", timeout=60) as management:
        (await management.put(f"vhosts/{name}")).raise_for_status()
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        (await management.put(f"permissions/{name}/{USER}", json=everything)).raise_for_status()
