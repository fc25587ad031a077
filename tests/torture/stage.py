"""Runs the servers: RabbitMQ, a Redis that writes every change to the disk at once, and two bridges, behind proxies."""

from __future__ import annotations

import asyncio
import fcntl
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from enum import StrEnum
from pathlib import Path

from benchmarks.log_faults import faults_in
from bridge.local.errors import LocalError
from bridge.local.ports import free_ports
from bridge.local.redis import RedisNode
from tests.matrix.servers import Servers
from tests.torture.partitions import Cluster
from tests.torture.parts import Failover, OneServer, Part, one_rabbit, one_redis
from tests.torture.plan import BRIDGES, BROKER, REDIS
from tests.torture.servers import TormentedBridge

MAX_RETRY = 3


class SetUp(StrEnum):
    SINGLE = "single"  # one RabbitMQ, one Redis, two bridges of one process
    WORKERS = "workers"  # the bridges have three workers each
    SENTINEL = "sentinel"  # Redis is a master and a replica under Sentinel
    CLUSTER = "cluster"  # RabbitMQ is a cluster of three nodes


class Stage:
    """The servers of a run. `parts` has the plan's targets as keys. The seed chooses among the nodes of a cluster."""

    def __init__(self, folder: Path, set_up: SetUp, seed: int) -> None:
        self._folder = folder
        broker = _cluster(folder, seed) if set_up is SetUp.CLUSTER else one_rabbit(folder)
        redis = Failover(folder / "redis") if set_up is SetUp.SENTINEL else one_redis(folder)
        self.parts: dict[str, Part] = {BROKER: broker, REDIS: redis}
        settings = {
            "BRIDGE_AMQP_URL": broker.url,
            "BRIDGE_REDIS_URL": redis.url,
            "BRIDGE_MAX_RETRY": str(MAX_RETRY),
            "BRIDGE_BACKOFF_FIRST": "200ms",  # the default would make the end of a run wait
            "BRIDGE_WORKERS": "3" if set_up is SetUp.WORKERS else "1",
        }
        for name in BRIDGES:
            bridge = TormentedBridge(self._log(name), free_ports(1)[0], settings)
            self.parts[name] = OneServer(bridge, bridge.url)

    @property
    def amqp_url(self) -> str:
        return self.parts[BROKER].url

    @property
    def http_urls(self) -> list[str]:
        return [self.parts[name].url for name in BRIDGES]

    @property
    def redis_url(self) -> str:
        """Where Redis itself listens; with Sentinel, its master."""
        redis = self.parts[REDIS].hit
        assert isinstance(redis, RedisNode)
        return redis.url

    def errors(self) -> list[str]:
        """The faults that the bridges logged. No fault of a server may cause one."""
        return [f"{name}: {fault}" for name in BRIDGES for fault in faults_in(self._log(name))]

    def _log(self, name: str) -> Path:
        return self._folder / "log" / f"{name}.log"

    async def start(self) -> None:
        """Starts the proxies, then the servers.

        Raises:
            LocalError: a server did not start.
        """
        for part in self.parts.values():
            await part.prepare()
        for names in ((BROKER, REDIS), BRIDGES):
            await asyncio.gather(*(asyncio.to_thread(self.parts[name].start) for name in names))

    async def until_ready(self) -> None:
        """Waits until every server answers.

        Raises:
            LocalError: a server has ended, or does not answer for long.
        """
        servers = [server for part in self.parts.values() for server in part.servers]
        await asyncio.gather(*(asyncio.to_thread(server.wait_until_ready) for server in servers))

    async def kill(self) -> None:
        for name in reversed(self.parts):
            await asyncio.to_thread(self.parts[name].kill)
        for part in self.parts.values():
            for proxy in part.proxies:
                await proxy.stop()


def _cluster(folder: Path, seed: int) -> Cluster:
    return Cluster(folder, seed, Servers.from_environment().rabbitmq_installation)


@asynccontextmanager
async def running(folder: Path, set_up: SetUp, seed: int) -> AsyncIterator[Stage]:
    """Empties the folder and starts a stage in it. The servers' logs stay there.

    Raises:
        LocalError: another run uses the folder, or a server did not start.
    """
    with emptied(folder):
        stage = Stage(folder, set_up, seed)
        try:
            await stage.start()
            yield stage
        finally:
            await stage.kill()


@contextmanager
def emptied(folder: Path) -> Iterator[None]:
    """Empties the folder of what an earlier run left, and locks it until the context ends.

    Raises:
        LocalError: another run uses the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LocalError(f"another run uses {folder}") from None
        for name in ("rabbitmq", "redis", "log", "shim"):
            shutil.rmtree(folder / name, ignore_errors=True)
        yield
