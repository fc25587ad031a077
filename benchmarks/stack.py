"""The servers under test."""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import httpx2
from redis.asyncio import Redis

from benchmarks import processes
from benchmarks.errors import BenchError
from bridge.local.bridge import BridgeProcess
from bridge.local.errors import LocalError
from bridge.local.ports import free_ports
from bridge.local.rabbitmq import PASSWORD, USER, RabbitNode
from bridge.local.redis import RedisNode
from bridge.local.server import Server

CpuSeconds = Mapping[str, float]
OWN_TREE: Final = Path(__file__).parents[1]
# What both happen in time anyway: the write-ahead log becomes segments, and garbage is collected.
_SETTLE = "catch ra_log_wal:force_roll_over(ra_log_wal), [garbage_collect(P) || P <- processes()], ok."


class Stack(ABC):
    """A bridge with its servers. `topic_ending` keeps the topics of one run apart from another's."""

    http_url: str
    amqp_url: str
    topic_ending = ""

    @abstractmethod
    async def fresh(self, *, processes: int = 1, **settings: str) -> None:
        """An empty broker, an empty Redis and so many bridge processes with these settings beyond the defaults."""

    @abstractmethod
    def cpu_s(self) -> CpuSeconds:
        """CPU seconds used so far by each part that can be seen."""

    @abstractmethod
    def memory_mib(self) -> Mapping[str, float]:
        """Resident memory of each part that can be seen."""


class GivenStack(Stack):
    """A stack that runs already: it is not emptied, and its processes are not seen."""

    def __init__(self, http_url: str, amqp_url: str) -> None:
        self.http_url, self.amqp_url = http_url.rstrip("/"), amqp_url
        self.topic_ending = f"-{secrets.token_hex(3)}"

    async def fresh(self, *, processes: int = 1, **settings: str) -> None:
        if settings or processes != 1:
            raise BenchError("a running bridge can't be given other settings or processes")

    def cpu_s(self) -> CpuSeconds:
        return {}

    def memory_mib(self) -> Mapping[str, float]:
        return {}


class OwnStack(Stack):
    """RabbitMQ, Redis (every write through to the disk) and bridge processes, on free loopback ports.

    The bridges are this tree's, or those of another checkout `tree`. With `reuse`, what `fresh` gives is empty only
    where its settings are others than before: the runs keep to topics of their own, so nothing but figures suffers.
    """

    def __init__(self, folder: Path, *, tree: Path = OWN_TREE, reuse: bool = False) -> None:
        self.folder = folder
        self.rabbitmq = RabbitNode(folder / "rabbitmq")
        self.redis = RedisNode(folder / "redis", appendfsync="always")
        self.bridges: list[BridgeProcess] = []
        self._tree, self._reuse = tree, reuse
        self._http_port = free_ports(1)[0]
        self._vhosts = 0
        self._given: tuple[int, Mapping[str, str]] | None = None

    def start(self) -> None:
        """Starts the two stores; the bridge starts with the first `fresh`. LocalError when one does not."""
        self.redis.start()
        self.rabbitmq.start()

    def stop(self) -> None:
        for server in (*self.bridges, self.rabbitmq, self.redis):
            # What they hold is thrown away.
            server.kill()

    async def fresh(self, *, processes: int = 1, **settings: str) -> None:
        if self._reuse and self._given == (processes, settings):
            await self.start_bridge()
            return
        self._given = processes, settings
        for bridge in self.bridges:
            bridge.kill()
        await asyncio.to_thread(self._start_stores)
        await self.empty()
        addresses = {"BRIDGE_AMQP_URL": self.amqp_url, "BRIDGE_REDIS_URL": self.redis.url}
        addresses |= {"BRIDGE_WORKERS": str(processes)} | settings
        # An older tree starts no workers of its own; there, as many bridges share the port.
        bridges = 1 if (self._tree / "bridge" / "workers.py").exists() else processes
        self.bridges = [
            _Bridge(self.folder / "log" / f"bridge-{number}.log", self._http_port, addresses, self._tree, bridges > 1)
            for number in range(bridges)
        ]
        self.http_url = self.bridges[0].url
        await self.start_bridge()

    async def empty(self) -> None:
        """A virtual host and a Redis with nothing in them."""
        former, self._vhosts = self._vhosts, self._vhosts + 1
        async with httpx2.AsyncClient(base_url=self.rabbitmq.management_url, timeout=120) as management:
            if former:
                (await management.delete(f"/api/vhosts/run-{former}")).raise_for_status()
            (await management.put(f"/api/vhosts/run-{self._vhosts}")).raise_for_status()
            grant = {"configure": ".*", "write": ".*", "read": ".*"}
            granted = await management.put(f"/api/permissions/run-{self._vhosts}/{USER}", json=grant)
            granted.raise_for_status()
        async with Redis.from_url(self.redis.url, socket_timeout=120) as redis:
            await redis.flushall()
        self.amqp_url = f"amqp://{USER}:{PASSWORD}@127.0.0.1:{self.rabbitmq.port}/run-{self._vhosts}"

    async def start_bridge(self) -> None:
        for bridge in self.bridges:
            await asyncio.to_thread(bridge.start)

    async def stop_bridge(self) -> None:
        """Ends the bridges as an operator would, so that they finish what is under way."""
        for bridge in self.bridges:
            await asyncio.to_thread(bridge.stop)

    async def settle(self, seconds: float) -> None:
        """Has RabbitMQ do within so long what it does in time, so that memory depends on no chance."""
        with suppress(LocalError):
            await asyncio.to_thread(self.rabbitmq.ctl, "eval", _SETTLE)
        await asyncio.sleep(seconds)

    def cpu_s(self) -> CpuSeconds:
        own = os.times()
        return {part: processes.cpu_s(pids) for part, pids in self._pids().items()} | {"client": own.user + own.system}

    def memory_mib(self) -> Mapping[str, float]:
        return {part: processes.resident_mib(pids) for part, pids in self._pids().items()}

    def disk_bytes(self) -> Mapping[str, int]:
        """What RabbitMQ and Redis take on the disk."""
        return {part: processes.disk_bytes(self.folder / part) for part in ("rabbitmq", "redis")}

    def _start_stores(self) -> None:
        # A run may have ended one of them.
        self.redis.start()
        self.rabbitmq.start()

    def _pids(self) -> dict[str, list[int]]:
        servers: dict[str, list[Server]] = {
            "bridge": [*self.bridges],
            "rabbitmq": [self.rabbitmq],
            "redis": [self.redis],
        }
        running = {part: [server.pid for server in each if server.running] for part, each in servers.items()}
        return {part: pids for part, pids in running.items() if pids}


class _Bridge(BridgeProcess):
    def __init__(self, log_file: Path, port: int, settings: Mapping[str, str], tree: Path, shared: bool) -> None:
        super().__init__(log_file, port, settings, port_is_shared=shared)
        self._tree = tree

    def command(self) -> list[str]:
        # A module is looked for in the folder it is started in first; env becomes the bridge.
        return ([] if self._tree == OWN_TREE else ["env", "-C", str(self._tree)]) + super().command()


@contextmanager
def own_stack(folder: Path, *, tree: Path = OWN_TREE, reuse: bool = False) -> Iterator[OwnStack]:
    """A stack in a folder that is emptied before, and after a run that went well.

    Raises:
        BenchError: another benchmark uses the folder.
        LocalError: a server did not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BenchError(f"another benchmark runs in {folder}") from None
        _empty(folder)
        stack = OwnStack(folder, tree=tree, reuse=reuse)
        try:
            stack.start()
            yield stack
        finally:
            stack.stop()
        _empty(folder)


def _empty(folder: Path) -> None:
    for name in ("rabbitmq", "redis", "log", "peers-data"):
        shutil.rmtree(folder / name, ignore_errors=True)
