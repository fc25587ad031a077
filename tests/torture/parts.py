"""Runs the parts of a stage. A part is a bridge, RabbitMQ or Redis: one server, or several.

`hit` is the server that a fault hits now, `proxy` leads to it, and `url` is for clients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from bridge.local.redis_sentinels import RedisSentinels
from bridge.local.server import Server
from tests.proxy import Proxy
from tests.torture.plan import Kind
from tests.torture.servers import TormentedRabbit, TormentedRedis
from tests.torture.shim import Shim

_OF_SHIM = (Kind.CLOCK, Kind.SLOW_DISK)
OF_PROCESS = (Kind.KILL, Kind.FREEZE, Kind.STARVE)


class Part(ABC):
    servers: Sequence[Server]
    proxies: Sequence[Proxy] = ()
    least_away_s: ClassVar[float] = 0.0  # a killed server stays away for as long

    @property
    @abstractmethod
    def url(self) -> str: ...

    @property
    def hit(self) -> Server:
        return self.servers[0]

    @property
    def proxy(self) -> Proxy:
        return self.proxies[0]

    def lacks(self, kind: Kind) -> str:
        """Why there is no such fault here. Empty: there is."""
        return ""

    async def prepare(self) -> None:
        """Starts what has to run before the servers, and the proxies first."""
        for proxy in self.proxies:
            await proxy.start()

    def start(self) -> None:
        for server in self.servers:
            server.start()

    def kill(self) -> None:
        for server in self.servers:
            server.kill()


class OneServer(Part):
    """One server behind a proxy."""

    def __init__(self, server: Server, url: str) -> None:
        self.servers, self.proxies = [server], [Proxy(url)]

    @property
    def url(self) -> str:
        return self.proxy.url


class ShimmedServer(OneServer):
    """One server behind a proxy, whose clock and disk can be disturbed."""

    def __init__(self, disk: TormentedRabbit | TormentedRedis, url: str) -> None:
        super().__init__(disk, url)
        self.disk = disk

    def lacks(self, kind: Kind) -> str:
        return self.disk.shim.missing if kind in _OF_SHIM else ""

    def start(self) -> None:
        self.disk.shim.build()
        super().start()


class Failover(Part):
    """Redis under Sentinel. The sentinels name the servers' own addresses, so no proxy is in between."""

    least_away_s: ClassVar[float] = 4.0  # the sentinels notice it after a second, and then elect

    def __init__(self, folder: Path) -> None:
        self._redis = RedisSentinels(folder)
        self.servers = [*self._redis.members, *self._redis.sentinels]

    @property
    def url(self) -> str:
        return self._redis.url

    @property
    def hit(self) -> Server:
        """The master."""
        return self._redis.master

    def lacks(self, kind: Kind) -> str:
        return "" if kind in OF_PROCESS else "Redis under Sentinel runs without proxy and shim, and forgets by itself"

    def start(self) -> None:
        self._redis.start()


def one_rabbit(folder: Path) -> Part:
    rabbit = TormentedRabbit(folder / "rabbitmq", Shim(folder / "shim", "rabbitmq"))
    return ShimmedServer(rabbit, rabbit.amqp_url)


def one_redis(folder: Path) -> Part:
    redis = TormentedRedis(folder / "redis", Shim(folder / "shim", "redis"))
    return ShimmedServer(redis, redis.url)
