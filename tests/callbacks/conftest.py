"""Provides a bridge that may call receivers on this machine, and a receiver for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest_asyncio

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.callbacks.receiver import Receiver, receiving
from tests.integration.own import Own, own_bridge
from tests.integration.topic import Topic


@pytest_asyncio.fixture(scope="session")
async def calling(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Own]:
    """A bridge that may call http receivers on loopback."""
    allowed = {"BRIDGE_PUSH_ALLOW": "http://127.0.0.1", "BRIDGE_TASK_RETENTION": "1d"}
    async with own_bridge(rabbit, redis_node.url, local_dir / "push", **allowed) as own:
        yield own


@pytest_asyncio.fixture
async def topic(calling: Own) -> Topic:
    return Topic(calling.topic.client, f"push-{uuid4().hex[:12]}")


@pytest_asyncio.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver
