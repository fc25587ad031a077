"""Runs the servers: one RabbitMQ, one Redis that writes every change to the disk at once, two bridges, four proxies."""

from __future__ import annotations

import asyncio
import fcntl
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from bridge.local.bridge import BridgeProcess
from bridge.local.errors import LocalError
from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.local.server import Server
from tests.proxy import Proxy
from tests.torture.plan import BRIDGES, BROKER, REDIS

MAX_RETRY = 3


class Stage:
    """The servers of a run, and the proxies in front of them. `servers` and `proxies` have the plan's names as keys."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        rabbit, redis = RabbitNode(folder / "rabbitmq"), RedisNode(folder / "redis", appendfsync="always")
        self.servers: dict[str, Server] = {BROKER: rabbit, REDIS: redis}
        self.proxies = {BROKER: Proxy(rabbit.amqp_url), REDIS: Proxy(redis.url)}
        settings = {
            "BRIDGE_AMQP_URL": self.proxies[BROKER].url,
            "BRIDGE_REDIS_URL": self.proxies[REDIS].url,
            "BRIDGE_MAX_RETRY": str(MAX_RETRY),
        }
        for name in BRIDGES:
            bridge = BridgeProcess(self._log(name), free_ports(1)[0], settings)
            self.servers[name], self.proxies[name] = bridge, Proxy(bridge.url)

    @property
    def amqp_url(self) -> str:
        return self.proxies[BROKER].url

    @property
    def http_urls(self) -> list[str]:
        return [self.proxies[name].url for name in BRIDGES]

    def errors(self) -> list[str]:
        """The lines that the bridges logged with a traceback. No fault of a server may cause one."""
        return [
            f"{name}: {line}"
            for name in BRIDGES
            for line in self._log(name).read_text(errors="replace").splitlines()
            if '"level": "error"' in line and '"exception": ' in line
        ]

    def _log(self, name: str) -> Path:
        return self._folder / "log" / f"{name}.log"

    async def start(self) -> None:
        """Starts the proxies, then the servers.

        Raises:
            LocalError: a server did not start.
        """
        for proxy in self.proxies.values():
            await proxy.start()
        for names in ((BROKER, REDIS), BRIDGES):
            await asyncio.gather(*(asyncio.to_thread(self.servers[name].start) for name in names))

    async def until_ready(self) -> None:
        """Waits until every server answers.

        Raises:
            LocalError: a server has ended, or does not answer for long.
        """
        await asyncio.gather(*(asyncio.to_thread(server.wait_until_ready) for server in self.servers.values()))

    async def kill(self) -> None:
        for name in reversed(self.servers):
            await asyncio.to_thread(self.servers[name].kill)
        for proxy in self.proxies.values():
            await proxy.stop()


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Stage]:
    """Empties the folder and starts a stage in it. The servers' logs stay there.

    Raises:
        LocalError: another run uses the folder, or a server did not start.
    """
    with _emptied(folder):
        stage = Stage(folder)
        try:
            await stage.start()
            yield stage
        finally:
            await stage.kill()


@contextmanager
def _emptied(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LocalError(f"another run uses {folder}") from None
        for name in ("rabbitmq", "redis", "log"):
            shutil.rmtree(folder / name, ignore_errors=True)
        yield
