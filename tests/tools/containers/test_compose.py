"""Tests docker-compose.yml, unchanged, with Docker Compose itself, on stand-ins of its images (images.py)."""

from __future__ import annotations

import asyncio
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

BRIDGES = ("bridge", "bridge-1", "bridge-2")
URL = "http://127.0.0.1:8080"
AMQP_URL = "amqp://delaybridge:delaybridge@127.0.0.1:5672"
PROMETHEUS_URL = "http://127.0.0.1:9090/api/v1/"


@pytest.fixture(scope="module")
def program(engine: Engine) -> Path:
    """Docker Compose."""
    return images.compose_program(engine)


@pytest.fixture(scope="module")
def compose(engine: Engine, program: Path) -> Iterator[Compose]:
    """Docker Compose on podman. All images are here."""
    if taken := [port for port in PORTS if not is_free(port)]:
        pytest.skip(f"another program listens on port {taken[0]}, which docker-compose.yml publishes")
    try:
        engine("network", "create", "tried")
        images.python_image(engine)
        engine("build", "--tag", f"docker.io/library/{PROJECT_NAME}-bridge:latest", ".")
        engine("run", "--rm", "--network=tried", f"{PROJECT_NAME}-bridge", "true")
    except EngineError as error:
        if "network" not in str(error) and "netavark" not in str(error):
            raise
        pytest.skip(f"this machine allows containers no network of their own: {error}")
    try:
        images.server_images(engine)
    except LocalError as error:
        pytest.skip(str(error))
    images.prometheus_image(engine)
    for bridge in BRIDGES[1:]:
        engine("tag", f"{PROJECT_NAME}-bridge", f"docker.io/library/{PROJECT_NAME}-{bridge}:latest")
    with running(engine, program) as ready:
        yield ready
        ready.down()


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


@pytest.mark.parametrize(
    "files", [["docker-compose.yml"], ["docker-compose.yml", "deploy/compose-roles.yml"]], ids=["one file", "roles"]
)
def test_compose_accepts_the_files(engine: Engine, program: Path, files: list[str]) -> None:
    engine.run(str(program), *(f"--file={file}" for file in files), "--profile=*", "config", "--quiet")


async def test_first_messages_and_volumes_outlive_down_and_up(compose: Compose, tmp_path: Path) -> None:
    up_s = compose.up()
    print(f"\ndefault profile: up in {up_s:.1f} s, ready {await until_ready(URL):.1f} s later")
    await first_messages.over_http(URL)
    await first_messages.over_amqp(URL, AMQP_URL, tmp_path)
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


async def test_names_resolve_between_containers_alone(compose: Compose) -> None:
    compose.up()
    await until_ready(URL)
    ask = "import socket, sys; print(socket.gethostbyname(sys.argv[1]))"
    addresses = [compose.execute("bridge", "python", "-c", ask, name) for name in ("rabbitmq", "redis")]
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


async def test_cluster_delivers_what_another_bridge_accepted(compose: Compose, http: httpx2.AsyncClient) -> None:
    up_s = compose.up("bridge-1", "bridge-2", profile="cluster")
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
    print(f"profile cluster: down in {await asyncio.to_thread(compose.down):.1f} s")
