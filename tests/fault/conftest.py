from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from bridge.local.rabbitmq import RabbitNode
from tests.fault.stage import Stage, shared_stage
from tests.matrix.servers import FEW_TICKS, Servers


@pytest.fixture(scope="session")
def private_rabbit(local_dir: Path, servers: Servers) -> Iterator[RabbitNode]:
    """A node of this worker alone, for modules that kill or freeze it. The first such module starts it."""
    node = servers.rabbit_node(local_dir / "stages" / "rabbitmq", advanced=FEW_TICKS)
    yield node
    node.kill()


@pytest.fixture(scope="module")
def stage(local_dir: Path, servers: Servers, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A Redis for the module alone, and a virtual host of the run's RabbitMQ.

    A module marked `private_rabbit` kills, freezes or reconfigures RabbitMQ. It gets a node that no other test uses
    meanwhile.
    """
    name = Path(request.node.name).stem
    folder = local_dir / name
    if request.node.get_closest_marker("private_rabbit"):
        node: RabbitNode = request.getfixturevalue("private_rabbit")
        with Stage(folder, servers, node) as stage:
            yield stage
        return
    with shared_stage(folder, servers, request.getfixturevalue("rabbit")) as stage:
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
