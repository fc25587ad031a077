"""Runs each test of this folder on simulated servers, in virtual time. The nightly run and the matrix of versions run
it on real servers too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fault.stage import Stage as RealStage
from tests.fault.stage import shared_stage
from tests.inside.stage import SimulatedStage, Stage, VirtualLoop
from tests.matrix.servers import Servers
from tests.shared_servers import SharedRabbit
from tests.simulate.store import COMPILER, PrivateRedis


def pytest_asyncio_loop_factories(
    config: pytest.Config,
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Returns the loops on which a test runs, by name. The virtual clock of Redis needs a C compiler."""
    ways: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {}
    if COMPILER is not None:
        ways["simulated"] = VirtualLoop
    if not ways or config.option.nightly or Servers.from_environment() != Servers():
        ways["real"] = asyncio.new_event_loop
    return ways


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Gives each test a loop of its own."""
    if isinstance(collector, pytest.Module):
        collector.add_marker(pytest.mark.asyncio(loop_scope="function"))


@pytest.fixture(scope="session")
def virtual_redis(local_dir: Path) -> Iterator[PrivateRedis]:
    """A Redis with the virtual clock, for all simulated stages of this worker."""
    redis = PrivateRedis(local_dir / "virtual-redis")
    redis.start()
    yield redis
    redis.kill()


@pytest.fixture(scope="module")
def real_stage(
    local_dir: Path, servers: Servers, rabbit: SharedRabbit, request: pytest.FixtureRequest
) -> Iterator[RealStage]:
    with shared_stage(local_dir / Path(request.node.name).stem, servers, rabbit) as stage:
        yield stage


@pytest_asyncio.fixture(loop_scope="function")
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """The servers of one test. Real ones stay for all tests of a module."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        yield request.getfixturevalue("real_stage")
        return
    simulated = SimulatedStage(loop, request.getfixturevalue("virtual_redis"))
    yield simulated
    simulated.close()
