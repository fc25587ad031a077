"""Gives each test a broker: a simulated one, then the run's RabbitMQ with a virtual host of this folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from random import Random
from uuid import uuid4

import pytest

from bridge.local.rabbitmq import RabbitNode
from tests.matrix.servers import Servers
from tests.shared_servers import delete_vhost, make_vhost
from tests.simulate.contract.client import Channel, Client
from tests.simulate.contract.served import served
from tests.simulate.rabbitmq import Broker
from tests.simulate.rabbitmq.versions import RULES, Rules

WINDOW, RETRY_MS = 256, 5_000.0
"""How `bridge.local.rabbitmq` sets up real nodes: dead letters of a queue on their way, and when one is tried again."""


@dataclass
class Node:
    """A broker, and the clients of one test. `rules`: of its version."""

    port: int
    vhost: str
    rules: Rules
    clients: list[Client] = field(default_factory=list)
    _prefix: str = field(default_factory=lambda: f"c-{uuid4().hex[:8]}")

    async def client(self) -> Client:
        client = await Client.open(self.port, self.vhost)
        self.clients.append(client)
        return client

    async def channel(self, *, confirms: bool = True) -> Channel:
        """Opens a channel on a connection of its own."""
        return await (await self.client()).channel(confirms=confirms)

    def name(self, purpose: str) -> str:
        """Returns the name of an object of this test."""
        return f"{self._prefix}.{purpose}"


@dataclass(frozen=True)
class Address:
    """Where a broker listens."""

    port: int
    vhost: str
    version: str


@pytest.fixture(scope="module", params=["simulated", "real"])
async def address(request: pytest.FixtureRequest, servers: Servers) -> AsyncIterator[Address]:
    version = servers.rabbitmq or "3.10"
    if request.param == "simulated":
        broker = Broker(version=version, random=Random(0))
        broker.state.dead_letter_window, broker.state.dead_letter_retry_ms = WINDOW, RETRY_MS
        async with served(broker) as port:
            yield Address(port, "/", version)
        return
    rabbit: RabbitNode = request.getfixturevalue("rabbit")
    vhost = f"contract-{uuid4().hex[:8]}"
    await asyncio.to_thread(make_vhost, rabbit, vhost)
    yield Address(rabbit.port, vhost, version)
    await asyncio.to_thread(delete_vhost, rabbit, vhost)


@pytest.fixture
async def node(address: Address) -> AsyncIterator[Node]:
    node = Node(address.port, address.vhost, RULES[address.version])
    yield node
    for client in node.clients:
        await client.close()


@pytest.fixture
async def channel(node: Node) -> Channel:
    """A channel with publisher confirms."""
    return await node.channel()
