"""Runs the servers under test, or connects to running ones."""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import httpx2
from redis.asyncio import Redis

from benchmarks import processes
from benchmarks.errors import BenchError
from benchmarks.log_faults import Fault, faults_in
from bridge.local.bridge import BridgeProcess
from bridge.local.errors import LocalError
from bridge.local.ports import free_ports
from bridge.local.rabbitmq import PASSWORD, USER, RabbitNode
from bridge.local.redis import RedisNode
from bridge.local.server import Server

CpuSeconds = Mapping[str, float]
OWN_TREE: Final = Path(__file__).parents[1]
# RabbitMQ does both by itself sooner or later: it turns the write-ahead log into segments, and collects garbage.
_SETTLE = "catch ra_log_wal:force_roll_over(ra_log_wal), [garbage_collect(P) || P <- processes()], ok."


class Stack(ABC):
    """A bridge with its servers. `topic_ending` keeps the topics of one run apart from another's."""

    http_url: str
    amqp_url: str
    topic_ending = ""

    @abstractmethod
    async def fresh(self, *, processes: int = 1, **settings: str) -> None:
        """Provides an empty broker, an empty Redis, and bridge processes with these settings in addition to the
        defaults."""

    @abstractmethod
    def cpu_s(self) -> CpuSeconds:
        """Returns the CPU seconds that each visible part has used so far."""

    @abstractmethod
    def memory_mib(self) -> Mapping[str, float]:
        """Returns the resident memory of each visible part."""

    @abstractmethod
    def faults(self) -> Sequence[Fault]:
        """Returns what the logs of visible bridges have told of so far that no run may cause."""


class GivenStack(Stack):
    """A stack that already runs. The benchmark does not empty it and does not see its processes."""

    def __init__(self, http_url: str, amqp_url: str) -> None:
        self.http_url, self.amqp_url = http_url.rstrip("/"), amqp_url
        self.topic_ending = f"-{secrets.token_hex(3)}"

    async def fresh(self, *, processes: int = 1, **settings: str) -> None:
        if settings or processes != 1:
            raise BenchError("the settings and the processes of a running bridge can't be changed")

    def cpu_s(self) -> CpuSeconds:
        return {}

    def memory_mib(self) -> Mapping[str, float]:
        return {}

    def faults(self) -> Sequence[Fault]:
        return ()


class OwnStack(Stack):
    """RabbitMQ, Redis (every write goes to the disk) and bridge processes, on free loopback ports.

    The bridges run the code of this tree, or of another checkout `tree`. With `reuse`, `fresh` empties the servers only
    if its settings have changed. Each run has its own topics, so only the figures suffer.
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
        """Starts RabbitMQ and Redis. The bridge starts with the first `fresh`. LocalError: a server did not start."""
        self.redis.start()
        self.rabbitmq.start()

    def stop(self) -> None:
        for server in (*self.bridges, self.rabbitmq, self.redis):
            # Nobody needs their data any more.
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
        # Older code has no worker processes. Then several bridges share the port.
        code = self._tree / "bridge"
        has_workers = (code / "cli" / "workers.py").exists() or (code / "workers.py").exists()
        bridges = 1 if has_workers else processes
        self.bridges = [
            _Bridge(self.folder / "log" / f"bridge-{number}.log", self._http_port, addresses, self._tree, bridges > 1)
            for number in range(bridges)
        ]
        self.http_url = self.bridges[0].url
        await self.start_bridge()

    async def empty(self) -> None:
        """Creates an empty virtual host, and empties Redis."""
        previous, self._vhosts = self._vhosts, self._vhosts + 1
        async with httpx2.AsyncClient(base_url=self.rabbitmq.management_url, timeout=120) as management:
            if previous:
                (await management.delete(f"/api/vhosts/run-{previous}")).raise_for_status()
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
        """Stops the bridges gracefully, so that they finish their work in flight."""
        for bridge in self.bridges:
            await asyncio.to_thread(bridge.stop)

    async def settle(self, seconds: float) -> None:
        """Makes RabbitMQ tidy up within `seconds`, so that its memory does not depend on chance."""
        with suppress(LocalError):
            await asyncio.to_thread(self.rabbitmq.ctl, "eval", _SETTLE)
        await asyncio.sleep(seconds)

    def cpu_s(self) -> CpuSeconds:
        own = os.times()
        return {part: processes.cpu_s(pids) for part, pids in self._pids().items()} | {"client": own.user + own.system}

    def memory_mib(self) -> Mapping[str, float]:
        return {part: processes.resident_mib(pids) for part, pids in self._pids().items()}

    def faults(self) -> Sequence[Fault]:
        return [fault for log in sorted((self.folder / "log").glob("bridge-*.log")) for fault in faults_in(log)]

    def disk_bytes(self) -> Mapping[str, int]:
        """Returns the disk space of RabbitMQ and Redis."""
        return {part: processes.disk_bytes(self.folder / part) for part in ("rabbitmq", "redis")}

    def _start_stores(self) -> None:
        # A run may have stopped one of them.
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
        # Python looks for a module in its working directory first. `env -C` changes it, and then becomes the bridge.
        return ([] if self._tree == OWN_TREE else ["env", "-C", str(self._tree)]) + super().command()


@contextmanager
def own_stack(folder: Path, *, tree: Path = OWN_TREE, reuse: bool = False) -> Iterator[OwnStack]:
    """Runs a stack in a folder. Empties the folder before, and after a successful run.

    Raises:
        BenchError: another benchmark uses the folder.
        LocalError: a server did not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BenchError(f"another benchmark runs in {folder}: wait for it, or choose another folder") from None
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
