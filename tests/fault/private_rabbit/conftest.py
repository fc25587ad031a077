"""Gives tests a RabbitMQ that they may kill, freeze and reconfigure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.local.rabbitmq import RabbitNode
from tests.fault.stage import Stage
from tests.matrix.servers import FEW_TICKS, Servers


@pytest.fixture(scope="session")
def private_rabbit(local_dir: Path, servers: Servers) -> Iterator[RabbitNode]:
    """A node for the modules of this folder, one after the other."""
    node = servers.rabbit_node(local_dir / "stages" / "rabbitmq", advanced=FEW_TICKS)
    yield node
    node.kill()


@pytest.fixture(scope="module")
def stage(
    local_dir: Path, servers: Servers, private_rabbit: RabbitNode, request: pytest.FixtureRequest
) -> Iterator[Stage]:
    """A Redis for the module alone, and the node, which is empty at first."""
    with Stage(local_dir / Path(request.node.name).stem, servers, private_rabbit) as stage:
        yield stage
