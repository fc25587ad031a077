"""What fuzzing shares: a bridge of its own, as much as is wished for, and a seed that repeats it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from random import getrandbits

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.integration.own import Own, own_bridge

TIMES = int(os.environ.get("FUZZ_TIMES", "1"))  # as many examples as a test asks for
# Far beyond the bridge's own limits: what a busy machine makes slow is no failure here.
_PATIENT = {"BRIDGE_BROKER_TIMEOUT": "30s", "BRIDGE_STORE_TIMEOUT": "30s", "BRIDGE_AUDIT_EVERY": "0"}
_CALLS_NOBODY = {"BRIDGE_ROLES": "api,checkpoint"}


def examples(count: int) -> settings:
    """So many examples, times FUZZ_TIMES; each may take as long as servers do."""
    slow = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=count * TIMES, deadline=None, suppress_health_check=slow)


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """The one given by `--hypothesis-seed`, else a new one."""
    given = pytestconfig.getoption("--hypothesis-seed")
    return getrandbits(32) if given is None else int(given)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fuzzed(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Own]:
    """A bridge that only the tests of one file talk to."""
    async with own_bridge(rabbit, redis_node.url, local_dir, **_PATIENT, **_CALLS_NOBODY) as own:
        yield own
