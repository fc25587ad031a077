"""Provides a running bridge's HTTP API, its RabbitMQ, its Redis, and a topic for each test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import uuid4

import aio_pika
import httpx2
import pytest
import pytest_asyncio

from bridge.broker.client.connection import BrokerConnection
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.model.breaker import Breaker
from bridge.store.client import Store
from bridge.store.replies import binaries
from tests.forked_bridge import ForkedBridge
from tests.integration.amqp import Amqp
from tests.integration.topic import Topic


@pytest_asyncio.fixture(scope="session")
async def client(bridge_url: str) -> AsyncIterator[httpx2.AsyncClient]:
    """An HTTP client of the worker's bridge."""
    async with httpx2.AsyncClient(base_url=bridge_url, timeout=90) as client:
        yield client


@pytest_asyncio.fixture(scope="session")
async def fresh_topics(client: httpx2.AsyncClient) -> AsyncIterator[asyncio.Queue[Topic]]:
    """Unused topics whose queues exist already: a bridge confirms nothing to a new queue in its first second."""
    fresh: asyncio.Queue[Topic] = asyncio.Queue(maxsize=5)

    async def make() -> None:
        while True:
            topic = Topic(client, f"t-{uuid4().hex[:12]}")
            await topic.put_policy()
            await fresh.put(topic)

    making = asyncio.create_task(make())
    yield fresh
    making.cancel()
    await asyncio.wait((making,))


@pytest_asyncio.fixture
async def topic(fresh_topics: asyncio.Queue[Topic]) -> Topic:
    """A topic that no other test uses."""
    return await fresh_topics.get()


@pytest_asyncio.fixture(scope="session")
async def amqp(rabbit: RabbitNode, bridge: ForkedBridge) -> AsyncIterator[Amqp]:
    """A connection to the worker's virtual host, on which the bridge has declared its objects."""
    async with await aio_pika.connect(rabbit.amqp_url) as connection:
        yield Amqp(connection)


@pytest_asyncio.fixture(scope="session")
async def store(redis_node: RedisNode) -> AsyncIterator[Store]:
    """The worker's Redis, single or not, for tests that change it themselves."""
    store = Store(redis_node.url, timeout_ms=10_000)
    yield store
    await store.close()


@pytest.fixture(scope="session")
def store_now_ms(store: Store) -> Callable[[], Awaitable[int]]:
    """Asks Redis for its time, in Unix ms. This clock decides when a message is due.

    Servers of a cluster share it, as they are on one machine.
    """

    async def now_ms() -> int:
        seconds, microseconds = binaries((await store.command_each("TIME"))[-1])
        return int(seconds) * 1_000 + int(microseconds) // 1_000

    return now_ms


@pytest_asyncio.fixture(scope="module")
async def connection(rabbit: RabbitNode) -> AsyncIterator[BrokerConnection]:
    """A connection as a bridge has it, which no other module uses."""
    connection = BrokerConnection(
        [rabbit.amqp_url], purpose="test", timeout_ms=10_000, check=lambda _: None, breaker=Breaker()
    )
    yield connection
    await connection.drop()
