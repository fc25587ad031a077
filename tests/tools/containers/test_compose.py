"""Tests docker-compose.yml, unchanged, with Docker Compose itself, on stand-ins of its images (images.py)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from bridge.local.errors import LocalError
from bridge.local.ports import is_free
from tests.docs import first_messages
from tests.integration.topic import Topic
from tests.tools.containers import images
from tests.tools.containers.compose import PROJECT_NAME, Compose, running
from tests.tools.containers.engine import Engine, EngineError
from tests.tools.prometheus import files
from tests.tools.prometheus.asking import until_answered
from tests.waiting import HUNG_AFTER_S, pause

pytestmark = pytest.mark.timeout(HUNG_AFTER_S)

PORTS = (5672, 8080, 8081, 8082, 9090, 15672, 15673)
"""Those that docker-compose.yml publishes on loopback."""

OWN_PORTS = (6379, 15692, 25672)
"""Those that it does not publish. On the host's network they are the host's."""

SAME_IMAGE = ("bridge-1", "bridge-2", "checkpoint", "push")
"""Services with the image of the bridge. Compose would build it for each."""

URL = "http://127.0.0.1:8080"
AMQP_URL = "amqp://delaybridge:delaybridge@127.0.0.1:5672"
PROMETHEUS_URL = "http://127.0.0.1:9090/api/v1/"
ROLES = "deploy/compose-roles.yml"
HOST_NETWORK = "tests/tools/containers/host-network.yml"


@pytest.fixture(scope="module")
def program(engine: Engine) -> Path:
    """Docker Compose."""
    return images.compose_program(engine)


@pytest.fixture(scope="module")
def has_networks(engine: Engine) -> bool:
    """Whether podman can make a network on this machine. BRIDGE_TEST_NETWORK=host tries none."""
    image = images.python_image(engine)
    if os.environ.get("BRIDGE_TEST_NETWORK") == "host":
        return False
    try:
        engine("network", "create", "tried")
        engine("run", "--rm", "--network=tried", image, "true")
    except EngineError as error:
        if "network" not in str(error) and "netavark" not in str(error):
            raise
        print(f"\nthe containers share the host's network, as podman can't make one: {error}")
        return False
    return True


@pytest.fixture(scope="module")
def compose(engine: Engine, program: Path, has_networks: bool) -> Iterator[Compose]:
    """Docker Compose on podman, after `docker compose up --build`."""
    ports = PORTS if has_networks else PORTS + OWN_PORTS
    if taken := [port for port in ports if not is_free(port)]:
        pytest.skip(f"another program listens on port {taken[0]}, which a service needs")
    try:
        images.server_images(engine)
    except LocalError as error:
        pytest.skip(str(error))
    images.prometheus_image(engine)
    with running(engine, program) as api:
        ready = api if has_networks else api.beside(HOST_NETWORK)
        up_s = ready.up(build=True)
        built = f"docker.io/library/{PROJECT_NAME}-bridge:latest"
        print(f"\ndefault profile: image built and up in {up_s:.1f} s, {engine.image_mb(built):.0f} MB")
        for service in SAME_IMAGE:
            engine("tag", built, f"docker.io/library/{PROJECT_NAME}-{service}:latest")
        yield ready
        ready.down()


@pytest.fixture
def apart(compose: Compose, has_networks: bool) -> Compose:
    """Docker Compose where each container has ports of its own."""
    if not has_networks:
        pytest.skip("on the host's network two containers can't listen on one port")
    return compose


@pytest_asyncio.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=60) as client:
        yield client


async def until_ready(*urls: str) -> float:
    """Waits until each bridge is ready, and returns the seconds."""
    begun = time.monotonic()
    async with httpx2.AsyncClient(timeout=60) as client:
        for url in urls:
            while True:
                try:
                    if (await client.get(f"{url}/health/ready")).status_code == httpx2.codes.OK:
                        break
                except httpx2.TransportError:
                    pass
                await pause()
    return time.monotonic() - begun


@pytest.mark.parametrize("more", [[], [ROLES], [HOST_NETWORK]], ids=["one file", "roles", "host network"])
def test_compose_accepts_the_files(engine: Engine, program: Path, more: list[str]) -> None:
    given = (f"--file={file}" for file in ("docker-compose.yml", *more))
    engine.run(str(program), *given, "--profile=*", "config", "--quiet")


async def test_first_messages_and_volumes_outlive_down_and_up(compose: Compose, tmp_path: Path) -> None:
    compose.up()
    print(f"\ndefault profile: ready {await until_ready(URL):.1f} s later")
    begun = time.monotonic()
    await first_messages.over_http(URL)
    await first_messages.over_amqp(URL, AMQP_URL, tmp_path)
    print(f"default profile: first messages over HTTP and AMQP in {time.monotonic() - begun:.1f} s")
    async with httpx2.AsyncClient(base_url=URL, timeout=60) as client:
        topic = Topic(client, "kept")
        kept = await topic.send("outlives its containers", delay="30s")
    print(f"default profile: down in {await asyncio.to_thread(compose.down):.1f} s")
    up_s = compose.up()
    print(f"default profile: up again in {up_s:.1f} s, ready {await until_ready(URL):.1f} s later")
    async with httpx2.AsyncClient(base_url=URL, timeout=60) as client:
        pulled = await topic.through(client).pull_one()
        assert (pulled["id"], pulled["body"]) == (kept["id"], "outlives its containers")
        await topic.through(client).ack(pulled)


async def test_names_resolve_between_containers_alone(apart: Compose) -> None:
    apart.up()
    await until_ready(URL)
    ask = "import socket, sys; print(socket.gethostbyname(sys.argv[1]))"
    addresses = [apart.execute("bridge", "python", "-c", ask, name) for name in ("rabbitmq", "redis")]
    assert len(set(addresses)) == 2
    assert not any(address.startswith("127.") for address in addresses)


async def test_bridge_tells_of_a_password_that_rabbitmq_refuses(compose: Compose) -> None:
    """The first start writes the user into the volume, so another password later is a wrong one."""
    compose.up()
    await until_ready(URL)
    replace(compose, settings={"BRIDGE_RABBITMQ_PASSWORD": "another"}).up()
    while "the user or the password is wrong" not in (log := compose.log("bridge")):
        await pause()
    assert "another" not in log
    compose.up()
    await until_ready(URL)


async def test_each_role_has_a_container(apart: Compose) -> None:
    roles = apart.beside(ROLES)
    up_s = roles.up()
    print(f"\nroles: up in {up_s:.1f} s, ready {await until_ready(URL):.1f} s later")
    async with httpx2.AsyncClient(base_url=URL, timeout=60) as client:
        topic = Topic(client, "roles")
        sent = await topic.send("released by another container", delay="1s")
        pulled = await topic.pull_one()
        assert pulled["id"] == sent["id"]
        await topic.ack(pulled)
    while not all(roles.is_healthy(service) for service in ("bridge", "checkpoint", "push")):
        await pause()
    print(f"roles: down in {await asyncio.to_thread(roles.down):.1f} s")


async def test_prometheus_scrapes_the_bridge_and_loads_the_rules(compose: Compose) -> None:
    """Grafana, the other service of the profile, is missing, as Debian has no package of it."""
    up_s = compose.up("prometheus", profile="observe")
    print(f"\nprofile observe, without Grafana: up in {up_s:.1f} s")
    async with httpx2.AsyncClient(base_url=URL, timeout=60) as client:
        await Topic(client, "observed").send("counted", delay="1h")
    async with httpx2.AsyncClient(base_url=PROMETHEUS_URL, timeout=60) as prometheus:
        await until_answered(
            prometheus, 'up{job="delaybridge"} == 1', 'delaybridge_accepted_total{topic="observed"} == 1'
        )
        rules = await loaded_rules(prometheus)
        while any(rule["health"] == "unknown" for rule in rules):  # until their first evaluation
            await pause()
            rules = await loaded_rules(prometheus)
        version = (await prometheus.get("status/buildinfo")).json()["data"]["version"]
    assert [rule for rule in rules if rule["health"] != "ok" or rule.get("lastError")] == []
    assert sorted(rule["name"] for rule in rules) == sorted(files.name_of(rule) for rule in files.rules())
    asked = images.compose_image("prometheus").partition(":v")[2].rpartition(".")[0]
    assert version.startswith(f"{asked}.")
    print(f"profile observe: Prometheus {version}, {len(rules)} rules")


async def loaded_rules(prometheus: httpx2.AsyncClient) -> list[dict[str, Any]]:
    """The rules as Prometheus has loaded them, those that record and those that alert."""
    groups = (await prometheus.get("rules")).json()["data"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


async def test_cluster_delivers_what_another_bridge_accepted(apart: Compose, http: httpx2.AsyncClient) -> None:
    up_s = apart.up("bridge-1", "bridge-2", profile="cluster")
    urls = ["http://127.0.0.1:8081", "http://127.0.0.1:8082"]
    print(f"\nprofile cluster: up in {up_s:.1f} s, ready {await until_ready(*urls):.1f} s later")
    async with (
        httpx2.AsyncClient(base_url=urls[0], timeout=60) as sending,
        httpx2.AsyncClient(base_url=urls[1], timeout=60) as pulling,
    ):
        topic = Topic(sending, "clustered")
        sent = await topic.send("through another bridge", delay="1s")
        pulled = await topic.through(pulling).pull_one()
        assert pulled["id"] == sent["id"]
        await topic.through(pulling).ack(pulled)
    nodes = (await http.get("http://delaybridge:delaybridge@127.0.0.1:15673/api/nodes")).json()
    assert {node["name"]: node["running"] for node in nodes} == {f"rabbit@rabbitmq-{n}": True for n in (1, 2, 3)}
    print(f"profile cluster: down in {await asyncio.to_thread(apart.down):.1f} s")
