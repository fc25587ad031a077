"""Tests that the Dockerfile's image builds, and that a bridge in it runs without rights and restarts without an error.

The image begins with a stand-in for the official Python image (tests/tools/containers/images.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest
import pytest_asyncio

from bridge.local.ports import free_ports
from bridge.local.redis import RedisNode
from tests.docs import first_messages
from tests.fault.traffic import Around, under_load
from tests.forked_bridge import PATIENT
from tests.shared_servers import SharedRabbit, delete_vhost, make_vhost
from tests.tools.containers.bridge import BridgeContainer
from tests.tools.containers.engine import Engine, EngineError
from tests.tools.containers.images import python_image
from tests.waiting import HUNG_AFTER_S

pytestmark = pytest.mark.timeout(HUNG_AFTER_S)

MEMORY_MB = 512
USER = "10001"


@pytest.fixture(scope="module")
def image(engine: Engine) -> str:
    """The name of the image, which this builds."""
    base = python_image(engine)
    begun = time.monotonic()
    engine("build", "--tag", "localhost/delaybridge:tested", ".")
    built_s = time.monotonic() - begun
    size = engine.image_mb("localhost/delaybridge:tested")
    print(f"\nimage: built in {built_s:.1f} s, {size:.0f} MB, of which {engine.image_mb(base):.0f} MB are {base}")
    return "localhost/delaybridge:tested"


@pytest.fixture(scope="module")
def memory_limit(engine: Engine, image: str) -> tuple[str, ...]:
    """The option that limits a container's memory; empty on a machine that has no control group for it."""
    option = f"--memory={MEMORY_MB}m"
    try:
        engine("run", "--rm", "--network=none", option, image, "true")
    except EngineError as error:
        print(f"no memory limit on this machine: {error}")
        return ()
    return (option,)


@pytest.fixture(scope="module")
def vhost(rabbit: SharedRabbit) -> Iterator[SharedRabbit]:
    """The run's RabbitMQ with a virtual host for these tests alone."""
    name = f"containers-{uuid4().hex[:12]}"
    make_vhost(rabbit, name)
    yield rabbit.at(name)
    delete_vhost(rabbit, name)


@pytest.fixture(scope="module")
def bridges(
    engine: Engine, image: str, memory_limit: tuple[str, ...], vhost: SharedRabbit, redis_node: RedisNode
) -> Iterator[list[BridgeContainer]]:
    """Two bridges on the same servers."""
    settings = {
        "BRIDGE_AMQP_URL": vhost.amqp_url,
        "BRIDGE_MANAGEMENT_URL": vhost.management_url,
        "BRIDGE_REDIS_URL": redis_node.url,
        "BRIDGE_REDIS_PREFIX": vhost.vhost,
        "BRIDGE_ACCESS": "open",
        **PATIENT,
    }
    both = [BridgeContainer(engine, image, f"bridge-{number}", free_ports(1)[0]) for number in (1, 2)]
    for bridge in both:
        bridge.create(settings, *memory_limit)
        print(f"{bridge.name}: ready after {bridge.start():.1f} s")
    yield both
    for bridge in both:
        print(f"{bridge.name}: ended {bridge.stop():.1f} s after SIGTERM")
        assert bridge.state()["ExitCode"] == 0  # 137 after the grace period


@pytest_asyncio.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=httpx2.Timeout(60, connect=None, pool=None)) as client:
        yield client


async def test_first_messages_go_over_http_and_amqp(
    bridges: list[BridgeContainer], vhost: SharedRabbit, tmp_path: Path
) -> None:
    await first_messages.over_http(bridges[0].url)
    await first_messages.over_amqp(bridges[1].url, vhost.amqp_url, tmp_path)
    assert bridges[0].faults() == bridges[1].faults() == []


def test_process_has_no_rights(bridges: list[BridgeContainer], memory_limit: tuple[str, ...]) -> None:
    for bridge in bridges:
        status = bridge.process_status()
        assert set(status["Uid"].split()) == set(status["Gid"].split()) == {USER}
        assert {int(status[kind], 16) for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
        assert status["NoNewPrivs"] == "1"
        limit = bridge.engine.inspect("container", bridge.name)["HostConfig"]["Memory"]
        assert limit == (MEMORY_MB << 20 if memory_limit else 0)


def test_root_is_read_only(bridges: list[BridgeContainer]) -> None:
    # Everybody may write there, so it is not the user's rights that forbid it.
    with pytest.raises(EngineError, match="Read-only file system"):
        bridges[0].engine("exec", bridges[0].name, "touch", "/var/tmp/written")


def test_health_check_tells_a_bridge_from_a_process_that_answers_nothing(bridges: list[BridgeContainer]) -> None:
    engine, image = bridges[0].engine, bridges[0].image
    assert all(bridge.is_healthy() for bridge in bridges)
    silent = BridgeContainer(engine, image, "silent", free_ports(1)[0])
    engine("run", "--detach", "--network=none", f"--name={silent.name}", image, "sleep", "600")
    try:
        assert not silent.is_healthy()
    finally:
        engine("rm", "--force", "--time=0", silent.name)


async def test_rolling_restart_under_load_shows_no_client_an_error(
    bridges: list[BridgeContainer], http: httpx2.AsyncClient
) -> None:
    api = Around(http, [bridge.url for bridge in bridges])
    async with under_load(api, "rolling") as traffic:
        for bridge in bridges:
            api.urls.remove(bridge.url)  # what a balancer does before it lets a container be stopped
            stopped_s = await asyncio.to_thread(bridge.stop)
            assert bridge.state()["ExitCode"] == 0
            ready_s = await asyncio.to_thread(bridge.start)
            api.urls.append(bridge.url)
            print(f"{bridge.name}: restarted under load; ended after {stopped_s:.1f} s, ready after {ready_s:.1f} s")
            await traffic.more_sent(50)
    print(f"rolling restart: {len(traffic.sent)} messages, {api.refused} errors")
    assert api.refused == 0
    assert [fault for bridge in bridges for fault in bridge.faults()] == []
