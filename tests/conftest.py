"""The servers that tests run against: private ones, started once a session, on free ports.

BRIDGE_TEST_RABBITMQ and BRIDGE_TEST_REDIS_SERVER name other versions than this machine's (tests/matrix/servers.py).
BRIDGE_TEST_REDIS says how the session's Redis is run: single, sentinel or cluster.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.local.bridge import BridgeProcess
from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.local.redis_cluster import RedisCluster
from bridge.local.redis_sentinels import RedisSentinels
from tests.matrix.servers import Servers

PROJECT = Path(__file__).parent.parent
LONGEST = (
    "bench",
    "fault",
    "torture",
    "property",
    "wires",
    "push",
    "fuzz",
    "integration",
)  # folders, the longest first

SERVERS = Servers.from_environment()
REDIS = {"single": RedisNode, "sentinel": RedisSentinels, "cluster": RedisCluster}[
    os.environ.get("BRIDGE_TEST_REDIS") or "single"
]


def pytest_report_header() -> str | None:
    return f"servers: RabbitMQ {' and '.join(SERVERS.versions())}" if Servers() != SERVERS else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first, so that no core waits for it in the end."""
    turns = {folder: turn for turn, folder in enumerate(LONGEST)}
    items.sort(key=lambda item: turns.get(item.path.relative_to(PROJECT / "tests").parts[0], len(turns)))


@pytest.fixture(scope="session")
def servers() -> Servers:
    """The versions of RabbitMQ and Redis that this session runs against, for servers of a test's own."""
    return SERVERS


@pytest.fixture(scope="session")
def local_dir() -> Iterator[Path]:
    """A folder for this session's servers, removed afterwards."""
    folder = PROJECT / ".local" / f"test-{os.getpid()}"
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def rabbit(local_dir: Path, servers: Servers) -> Iterator[RabbitNode]:
    """A RabbitMQ node for the whole session. A test that kills it starts it again."""
    node = servers.rabbit_node(local_dir / "rabbitmq")
    node.start()
    yield node
    # Its data is thrown away, so nothing is gained by the seconds a graceful stop takes.
    node.kill()


@pytest.fixture(scope="session")
def redis_node(local_dir: Path, servers: Servers) -> Iterator[RedisNode | RedisSentinels | RedisCluster]:
    """Redis for the whole session. A test that kills it starts it again."""
    installed = servers.redis_installation
    with REDIS(local_dir / "redis", installation=installed, program=servers.redis_program) as node:
        yield node


@pytest.fixture(scope="session")
def bridge(local_dir: Path, rabbit: RabbitNode, redis_node: RedisNode) -> Iterator[BridgeProcess]:
    """A bridge process on the session's servers."""
    process = BridgeProcess(
        local_dir / "bridge" / "bridge.log",
        free_ports(1)[0],
        {
            "BRIDGE_AMQP_URL": rabbit.amqp_url,
            "BRIDGE_REDIS_URL": redis_node.url,
            "BRIDGE_MANAGEMENT_URL": rabbit.management_url,
        },
    )
    process.start()
    yield process
    process.kill()


@pytest.fixture(scope="session")
def bridge_url(bridge: BridgeProcess) -> str:
    """The address of the session's bridge, without a slash at its end."""
    return bridge.url
