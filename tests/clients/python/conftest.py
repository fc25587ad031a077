"""Provides the Python client of this worker's bridge, topics for it, and a scripted bridge for failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest
import pytest_asyncio

from delaybridge_client import Client
from tests.clients.python.scripted import Scripted

_TOPICS = 16


@pytest_asyncio.fixture(scope="session")
async def client(bridge_url: str) -> AsyncIterator[Client]:
    """An asyncio client of the worker's bridge."""
    async with Client(bridge_url) as client:
        yield client


@pytest_asyncio.fixture(scope="session")
async def topics(client: Client) -> Iterator[str]:
    """Names of topics whose queues exist already: a bridge confirms nothing to a new queue in its first second."""
    names = [f"client-{uuid4().hex[:12]}" for _ in range(_TOPICS)]
    await asyncio.gather(*(client.put_policy(name) for name in names))
    return iter(names)


@pytest.fixture
def topic(topics: Iterator[str]) -> str:
    """A topic that no other test uses."""
    return next(topics)


@pytest.fixture
def scripted() -> Scripted:
    """A bridge that answers as the test says."""
    return Scripted()
