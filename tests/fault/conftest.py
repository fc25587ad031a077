from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from tests.fault.stage import Stage
from tests.matrix.servers import Servers


@pytest.fixture(scope="module")
def stage(local_dir: Path, servers: Servers, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Servers of the module's own, which its tests kill."""
    with Stage(local_dir / Path(request.node.name).stem, servers) as stage:
        yield stage


@pytest_asyncio.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    """It waits longer for an answer than the bridge may take for one."""
    limits = httpx2.Limits(max_connections=128, max_keepalive_connections=128)
    async with httpx2.AsyncClient(limits=limits, timeout=httpx2.Timeout(10, read=40, pool=None)) as client:
        yield client
