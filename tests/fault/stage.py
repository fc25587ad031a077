"""Provides the servers of one module, which its tests kill, freeze, cut off and start again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import httpx2

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import USER, RabbitNode
from bridge.local.server import Server
from tests.forked_bridge import ForkedBridge
from tests.matrix.servers import Servers
from tests.proxy import Proxy
from tests.shared_servers import SharedRabbit
from tests.vhosts import give_back_vhost, take_vhost


class Stage:
    """One RabbitMQ, one Redis that writes every change to the disk at once, and any number of bridges."""

    def __init__(self, folder: Path, servers: Servers, rabbit: RabbitNode | None = None) -> None:
        """`rabbit`: a node that runs on afterwards, emptied first if no other worker uses it. Without it the stage
        starts a node."""
        self._given = rabbit
        self.rabbit = rabbit or servers.rabbit_node(folder / "rabbitmq")
        self.redis = servers.redis_node(folder / "redis", appendfsync="always")
        self._folder = folder
        self._bridges: list[ForkedBridge] = []

    def __enter__(self) -> Self:
        try:
            start_all(self.rabbit, self.redis)
            if self._given is not None and not isinstance(self._given, SharedRabbit):
                empty(self._given)
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def amqp_url(self) -> str:
        return self.rabbit.amqp_url

    @property
    def redis_url(self) -> str:
        return self.redis.url

    def proxy(self, url: str) -> Proxy:
        """Returns a proxy in front of the server at the address, not started yet."""
        return Proxy(url)

    def kill(self) -> None:
        for server in (*self._bridges, self.rabbit, self.redis):
            if server is not self._given:
                server.kill()

    def bridge(self, *, amqp_url: str | None = None, redis_url: str | None = None, **settings: str) -> ForkedBridge:
        """A bridge on these servers, not started yet; `settings` without their prefix, in lower case."""
        environment = {
            "BRIDGE_AMQP_URL": amqp_url or self.rabbit.amqp_url,
            "BRIDGE_REDIS_URL": redis_url or self.redis.url,
        } | {f"BRIDGE_{name.upper()}": value for name, value in settings.items()}
        log_file = self._folder / f"bridge-{len(self._bridges)}" / "bridge.log"
        bridge = ForkedBridge(log_file, free_ports(1)[0], environment)
        self._bridges.append(bridge)
        return bridge


@contextmanager
def shared_stage(folder: Path, servers: Servers, rabbit: SharedRabbit) -> Iterator[Stage]:
    """Yields a stage with a virtual host of the run's RabbitMQ."""
    own = rabbit.at(take_vhost(rabbit))
    with Stage(folder, servers, own) as stage:
        yield stage
    give_back_vhost(own, own.vhost)


def empty(rabbit: RabbitNode) -> None:
    """Deletes and makes its virtual host, with all that is on it and the connections to it."""
    with httpx2.Client(base_url=f"{rabbit.management_url}/api/", timeout=60) as management:
        management.delete("vhosts/%2F").raise_for_status()
        management.put("vhosts/%2F").raise_for_status()
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        management.put(f"permissions/%2F/{USER}", json=everything).raise_for_status()


def start_all(*servers: Server) -> None:
    """Starts servers at the same time, and returns when all answer."""
    with ThreadPoolExecutor() as threads:
        for _ in threads.map(lambda server: server.start(), servers):
            pass


async def started(*servers: Server) -> None:
    """Starts servers in a thread, while the event loop goes on."""
    await asyncio.to_thread(start_all, *servers)


async def killed(*servers: Server) -> None:
    """Sends SIGKILL to servers, while the event loop goes on."""
    for server in servers:
        await asyncio.to_thread(server.kill)
