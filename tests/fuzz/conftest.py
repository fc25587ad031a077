"""Provides a bridge that only fuzz tests talk to, and a seed that repeats a run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from random import getrandbits

import pytest
import pytest_asyncio

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.integration.own import Own, own_bridge

# Far above the default limits: a slow answer of a busy machine is no failure here.
_PATIENT = {
    "BRIDGE_BROKER_TIMEOUT": "30s",
    "BRIDGE_STORE_TIMEOUT": "30s",
    "BRIDGE_AUDIT_EVERY": "0",
    "BRIDGE_LEASE_COPY_AFTER": "0",  # a lease copy that is published later changes the state beside the requests
}
_CALLS_NOBODY = {"BRIDGE_ROLES": "api,checkpoint"}


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """The seed that `--hypothesis-seed` gives, or a new one."""
    given = pytestconfig.getoption("--hypothesis-seed")
    return getrandbits(32) if given is None else int(given)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fuzzed(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Own]:
    """A bridge that only the tests of one file talk to."""
    async with own_bridge(rabbit, redis_node.url, local_dir, **_PATIENT, **_CALLS_NOBODY) as own:
        yield own
