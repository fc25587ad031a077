from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from bridge.local.rabbitmq import RabbitNode
from tests.fault.stage import Stage
from tests.matrix.servers import Servers


@pytest.fixture(scope="session")
def rabbit_of_stages(local_dir: Path, servers: Servers) -> Iterator[RabbitNode]:
    """It is started by the first stage: one that another module's tests are done with costs no start."""
    node = servers.rabbit_node(local_dir / "stages" / "rabbitmq")
    yield node
    node.kill()


@pytest.fixture(scope="module")
def stage(
    local_dir: Path, servers: Servers, rabbit_of_stages: RabbitNode, request: pytest.FixtureRequest
) -> Iterator[Stage]:
    """Servers that nothing but the module's tests uses, and kills, meanwhile."""
    with Stage(local_dir / Path(request.node.name).stem, servers, rabbit_of_stages) as stage:
        yield stage


@pytest_asyncio.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    """It waits longer for an answer than the bridge may take for one.

    It waits for a connection as long as that takes, which is no time on loopback: when its time limit passes in the
    moment that a connection is made, anyio leaves it open.
    """
    limits = httpx2.Limits(max_connections=128, max_keepalive_connections=128)
    timeout = httpx2.Timeout(10, connect=None, read=40, pool=None)
    async with httpx2.AsyncClient(limits=limits, timeout=timeout) as client:
        yield client
