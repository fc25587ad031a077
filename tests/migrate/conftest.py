"""Provides a RabbitMQ with a stand-in for the delayed-message plugin, and the commands of a migration."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import aio_pika
import httpx2
import pytest
from aio_pika.abc import AbstractChannel

from bridge.local.rabbitmq import RabbitNode
from tests.command import command
from tests.matrix.servers import Servers
from tests.migrate.plugin import Plugin
from tests.shared_servers import delete_vhost, make_vhost, vhost_url
from topology.names import Names

NAMES = Names()
STAND_IN_FOR = "3.10"


@pytest.fixture(scope="session")
def node(local_dir: Path, servers: Servers) -> Iterator[RabbitNode]:
    """A node that no other test uses."""
    if not servers.versions()[0].startswith(f"{STAND_IN_FOR}."):
        pytest.skip(f"the stand-in for the plugin is for RabbitMQ {STAND_IN_FOR}")
    node = servers.rabbit_node(local_dir / "rabbitmq-with-plugin")
    node.start()
    yield node
    node.kill()


@pytest.fixture(scope="session")
def loaded(node: RabbitNode, local_dir: Path) -> Plugin:
    return Plugin(node, local_dir / "plugin")


@pytest.fixture
def plugin(loaded: Plugin) -> Plugin:
    """The stand-in, switched on."""
    loaded.on()
    return loaded


@dataclass(frozen=True, kw_only=True)
class Site:
    """A virtual host with the ingress of a bridge, and the commands for it."""

    node: RabbitNode
    vhost: str
    file: Path

    @property
    def amqp_url(self) -> str:
        return vhost_url(self.node, self.vhost)

    async def migrate(self, *arguments: str, code: int = 0) -> str:
        """Runs a command, and returns its output."""
        given = ("--management-url", self.node.management_url, "--vhost", self.vhost, "--file", str(self.file))
        result = await command("migrate", *given, *arguments, settings={})
        assert result.exit_code == code, result.output
        return result.output

    async def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(await self.migrate(*arguments, "--json", code=code))

    def export(self) -> dict[str, list[str]]:
        """The definitions, each list in an order that does not depend on chance."""
        with httpx2.Client(base_url=f"{self.node.management_url}/api/", timeout=60) as management:
            found = management.get(f"definitions/{self.vhost}").raise_for_status().json()
        return {
            kind: sorted(json.dumps(row, sort_keys=True) for row in rows)
            for kind, rows in found.items()
            if isinstance(rows, list)
        }

    def request(self, method: str, path: str, content: Any = None) -> Any:
        """Asks the management API. `{}` in the path is the virtual host."""
        with httpx2.Client(base_url=f"{self.node.management_url}/api/", timeout=60) as management:
            answer = management.request(method, path.format(self.vhost), json=content).raise_for_status()
            return answer.json() if answer.content else None

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[AbstractChannel]:
        async with await aio_pika.connect(self.amqp_url) as connection:
            yield await connection.channel(on_return_raises=True)


@pytest.fixture
def site(node: RabbitNode, plugin: Plugin, tmp_path: Path) -> Iterator[Site]:
    vhost = f"site-{uuid4().hex[:8]}"
    make_vhost(node, vhost)
    site = Site(node=node, vhost=vhost, file=tmp_path / "kept.json")
    site.request("PUT", f"queues/{{}}/{NAMES.ingress}", {"durable": True})  # all of a bridge that is needed
    yield site
    delete_vhost(node, vhost)


async def declare_old(channel: AbstractChannel, name: str = "orders", kind: str = "topic") -> None:
    """Declares an exchange of the plugin with two queues, and an exchange that feeds it."""
    old = await channel.declare_exchange(
        name,
        "x-delayed-message",
        durable=True,
        arguments={"x-delayed-type": kind, "alternate-exchange": f"{name}-other"},
    )
    for number, key in enumerate(("order.*", "#.bill")):
        queue = await channel.declare_queue(f"{name}-{number}", durable=True)
        await queue.bind(old, key, arguments={"number": number})
    feeder = await channel.declare_exchange(f"{name}-feeder", "fanout", durable=True)
    await old.bind(feeder, "fed")
