from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from tests.fault.stage import Stage, shared_stage
from tests.matrix.servers import Servers
from tests.shared_servers import SharedRabbit


@pytest.fixture(scope="module")
def stage(local_dir: Path, servers: Servers, rabbit: SharedRabbit, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A Redis for the module alone, and a virtual host of the run's RabbitMQ."""
    with shared_stage(local_dir / Path(request.node.name).stem, servers, rabbit) as stage:
        yield stage


@pytest_asyncio.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    """A client that waits longer for an answer than the bridge may take.

    It has no time limit for connecting, which takes no time on loopback. When such a limit passes at the moment that a
    connection is made, anyio leaves the connection open.
    """
    limits = httpx2.Limits(max_connections=128, max_keepalive_connections=128)
    timeout = httpx2.Timeout(10, connect=None, read=40, pool=None)
    async with httpx2.AsyncClient(limits=limits, timeout=timeout) as client:
        yield client
