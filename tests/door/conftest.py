"""Provides doors in front of a real broker, and exchanges as a migration leaves them."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ssl import SSLContext
from uuid import uuid4

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractQueue

from bridge.door.brokers import Brokers, Node
from bridge.door.door import Door
from bridge.door.ingresses import Ingresses
from bridge.local.rabbitmq import RabbitNode
from topology.names import Names

NAMES = Names()


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A door that runs in this process, and the port on which it listens."""

    door: Door
    port: int

    def url(self, amqp_url: str, scheme: str = "amqp") -> str:
        """The broker's URL, by way of the door."""
        login, _, rest = amqp_url.partition("://")[2].partition("@")
        return f"{scheme}://{login}@localhost:{self.port}/{rest.partition('/')[2]}"


@asynccontextmanager
async def opened(*ports: int, most: int = 50, tls: SSLContext | None = None) -> AsyncIterator[Opened]:
    """Runs a door in front of the servers on these ports of loopback."""
    door = Door(
        Brokers([Node(host="127.0.0.1", port=port) for port in ports]),
        ingress_of=Ingresses(NAMES.ingress_of, own=NAMES.prefix).of,
        most=most,
        tls=tls,
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        await door.start([listening])
        try:
            yield Opened(door=door, port=listening.getsockname()[1])
        finally:
            await door.stop(drain_s=0, grace_s=0)


@dataclass(frozen=True, kw_only=True)
class Migrated:
    """A migrated exchange of type topic with a queue that a consumer has bound, and a queue in place of the ingress."""

    exchange: str
    queue: AbstractQueue
    ingress: AbstractQueue

    @property
    def ingress_exchange(self) -> str:
        return NAMES.ingress_of(self.exchange)


@pytest.fixture
async def direct(rabbit: RabbitNode) -> AsyncIterator[AbstractChannel]:
    """A channel without a door."""
    async with await aio_pika.connect(rabbit.amqp_url) as connection:
        yield await connection.channel()


@pytest.fixture
async def migrated(direct: AbstractChannel) -> AsyncIterator[Migrated]:
    name = f"old-{uuid4().hex[:8]}"
    exchange = await direct.declare_exchange(name, "topic", durable=True, arguments={"x-delayed-type": "topic"})
    ingress_exchange = await direct.declare_exchange(NAMES.ingress_of(name), "fanout", durable=True)
    queue = await direct.declare_queue(f"{name}-consumer", durable=True)
    ingress = await direct.declare_queue(f"{name}-ingress", durable=True)
    await queue.bind(exchange, "#")
    await ingress.bind(ingress_exchange)
    yield Migrated(exchange=name, queue=queue, ingress=ingress)
    for one in (queue, ingress):
        await one.delete(if_unused=False, if_empty=False)
    for declared in (exchange, ingress_exchange):
        await declared.delete()
