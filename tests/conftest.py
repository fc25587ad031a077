"""The servers that tests run against: private ones, started once a session, on free ports."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode

PROJECT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def local_dir() -> Iterator[Path]:
    """A folder for this session's servers, removed afterwards."""
    folder = PROJECT / ".local" / f"test-{os.getpid()}"
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def rabbit(local_dir: Path) -> Iterator[RabbitNode]:
    """A RabbitMQ node for the whole session. A test that kills it starts it again."""
    node = RabbitNode(local_dir / "rabbitmq")
    node.start()
    yield node
    # Its data is thrown away, so nothing is gained by the seconds a graceful stop takes.
    node.kill()


@pytest.fixture(scope="session")
def redis_node(local_dir: Path) -> Iterator[RedisNode]:
    """A Redis server for the whole session. A test that kills it starts it again."""
    with RedisNode(local_dir / "redis") as node:
        yield node
