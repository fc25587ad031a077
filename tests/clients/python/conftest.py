"""Provides the Python client of this worker's bridge, topics for it, and a scripted bridge for failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import pytest_asyncio

from delaybridge_client import Client
from tests.clients.python.scripted import Scripted


@pytest_asyncio.fixture(scope="session")
async def client(bridge_url: str) -> AsyncIterator[Client]:
    """An asyncio client of the worker's bridge."""
    async with Client(bridge_url) as client:
        yield client


@pytest_asyncio.fixture(scope="session")
async def topics(client: Client) -> AsyncIterator[asyncio.Queue[str]]:
    """Unused topics whose queues exist already: a bridge confirms nothing to a new queue in its first second."""
    fresh: asyncio.Queue[str] = asyncio.Queue(maxsize=5)

    async def make() -> None:
        while True:
            name = f"client-{uuid4().hex[:12]}"
            await client.put_policy(name)
            await fresh.put(name)

    making = asyncio.create_task(make())
    yield fresh
    making.cancel()
    await asyncio.wait((making,))


@pytest_asyncio.fixture
async def topic(topics: asyncio.Queue[str]) -> str:
    """A topic that no other test uses."""
    return await topics.get()


@pytest.fixture
def scripted() -> Scripted:
    """A bridge that answers as the test says."""
    return Scripted()
