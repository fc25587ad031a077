"""Provides the bridge that the tests of the lmstfy wire share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.wires.lmstfy import Lmstfy, Queue, lmstfy_bridge


@pytest_asyncio.fixture(scope="session")
async def lmstfy(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Lmstfy]:
    async with lmstfy_bridge(rabbit, redis_node, local_dir / "lmstfy") as lmstfy:
        yield lmstfy


@pytest_asyncio.fixture
async def queue(lmstfy: Lmstfy) -> Queue:
    return await lmstfy.queue()
