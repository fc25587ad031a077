"""The servers under test."""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx2
from redis.asyncio import Redis

from bridge.bench.errors import BenchError
from bridge.local.bridge import BridgeProcess
from bridge.local.ports import free_ports
from bridge.local.rabbitmq import PASSWORD, USER, RabbitNode
from bridge.local.redis import RedisNode

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
CpuSeconds = Mapping[str, float]


class Stack(ABC):
    """A bridge with its servers. `topic_ending` keeps the topics of one run apart from another's."""

    http_url: str
    amqp_url: str
    topic_ending = ""

    @abstractmethod
    async def fresh(self, **settings: str) -> None:
        """An empty broker, an empty Redis and one bridge process with these settings beyond the defaults."""

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

    async def fresh(self, **settings: str) -> None:
        if settings:
            raise BenchError("a running bridge can't be given other settings")

    def cpu_s(self) -> CpuSeconds:
        return {}

    def memory_mib(self) -> Mapping[str, float]:
        return {}


class OwnStack(Stack):
    """RabbitMQ, Redis (every write through to the disk) and one bridge process, on free loopback ports."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.rabbitmq = RabbitNode(folder / "rabbitmq")
        self.redis = RedisNode(folder / "redis", appendfsync="always")
        self._http_port = free_ports(1)[0]
        self._vhosts = 0
        self.bridge: BridgeProcess | None = None

    def start(self) -> None:
        """Starts the two stores; the bridge starts with the first `fresh`. LocalError when one does not."""
        self.redis.start()
        self.rabbitmq.start()

    def stop(self) -> None:
        if self.bridge is not None:
            self.bridge.kill()
        # What they hold is thrown away.
        self.rabbitmq.kill()
        self.redis.kill()

    async def fresh(self, **settings: str) -> None:
        if self.bridge is not None:
            self.bridge.kill()
        former, self._vhosts = self._vhosts, self._vhosts + 1
        async with httpx2.AsyncClient(base_url=self.rabbitmq.management_url, timeout=60) as management:
            if former:
                (await management.delete(f"/api/vhosts/run-{former}")).raise_for_status()
            (await management.put(f"/api/vhosts/run-{self._vhosts}")).raise_for_status()
            grant = {"configure": ".*", "write": ".*", "read": ".*"}
            granted = await management.put(f"/api/permissions/run-{self._vhosts}/{USER}", json=grant)
            granted.raise_for_status()
        async with Redis.from_url(self.redis.url) as redis:
            await redis.flushall()
        self.amqp_url = f"amqp://{USER}:{PASSWORD}@127.0.0.1:{self.rabbitmq.port}/run-{self._vhosts}"
        addresses = {"BRIDGE_AMQP_URL": self.amqp_url, "BRIDGE_REDIS_URL": self.redis.url}
        self.bridge = BridgeProcess(self._folder / "log" / "bridge.log", self._http_port, addresses | settings)
        self.http_url = self.bridge.url
        await self.start_bridge()

    async def start_bridge(self) -> None:
        if self.bridge is not None:
            await asyncio.to_thread(self.bridge.start)

    async def stop_bridge(self) -> None:
        """Ends the bridge as an operator would, so that it finishes what is under way."""
        if self.bridge is not None:
            await asyncio.to_thread(self.bridge.stop)

    def cpu_s(self) -> CpuSeconds:
        own = os.times()
        return {part: _cpu_s(pid) for part, pid in self._pids().items()} | {"client": own.user + own.system}

    def memory_mib(self) -> Mapping[str, float]:
        return {part: _resident_mib(pid) for part, pid in self._pids().items()}

    def _pids(self) -> dict[str, int]:
        servers = {"bridge": self.bridge, "rabbitmq": self.rabbitmq, "redis": self.redis}
        return {part: server.pid for part, server in servers.items() if server is not None and server.running}


@contextmanager
def own_stack(folder: Path) -> Iterator[OwnStack]:
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
        stack = OwnStack(folder)
        try:
            stack.start()
            yield stack
        finally:
            stack.stop()
        _empty(folder)


def _empty(folder: Path) -> None:
    for name in ("rabbitmq", "redis", "log"):
        shutil.rmtree(folder / name, ignore_errors=True)


def _cpu_s(pid: int) -> float:
    """User and system time of all the process's threads (proc(5), fields 14 and 15 of stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1024**2
