"""Tests that every expression of the dashboard has samples, on a loaded bridge that Debian's Prometheus scrapes."""

from __future__ import annotations

import json
from asyncio.subprocess import PIPE, create_subprocess_exec
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import yaml

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.callbacks.receiver import answer, receiving
from tests.callbacks.subscribing import subscribe
from tests.integration.own import own_bridge
from tests.integration.topic import Topic
from tests.tools.prometheus.asking import until_answered
from tests.tools.prometheus.files import DASHBOARD, PROMETHEUS, RULE_FILES, program

VARIABLES = {"$job": ".*", "$topic": ".*", "$__rate_interval": "1m"}


def expressions() -> list[str]:
    """The expressions of all panels, with the dashboard's variables as Grafana would set them."""
    panels: Iterable[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    found = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    for variable, value in VARIABLES.items():
        found = [expression.replace(variable, value) for expression in found]
    return found


@asynccontextmanager
async def scraping(target: str, folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A Prometheus that scrapes the target twice a second and evaluates the rules; the client asks its API."""
    configuration = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    configuration["global"] = {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"}
    configuration["rule_files"] = [str(PROMETHEUS / file) for file in RULE_FILES]
    configuration["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with (folder / "prometheus.log").open("w") as log:
        process = await create_subprocess_exec(
            program("prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
            stderr=log,
        )
    try:
        async with httpx2.AsyncClient(base_url=f"http://{address}/api/v1/") as client:
            yield client
    finally:
        process.kill()
        await process.wait()


async def load(topic: Topic) -> None:
    """Lets messages take every way that the dashboard shows."""
    await topic.put_policy(max_retry=0)
    await topic.send(id="kept", delay="1h")
    await topic.send(id="deleted", delay="1h")
    await topic.call("DELETE", "/messages/deleted")
    for _ in range(3):
        await topic.send(delay=100)
    await topic.ack(await topic.pull_one())
    await topic.nack(await topic.pull_one())
    await topic.pull_one(lease="1s")
    async with receiving() as receiver:
        called = topic.beside("called")
        receiver.then = [answer(500)]
        await subscribe(called, receiver)
        await called.send(delay=0)
        await receiver.some(2)


async def test_every_expression_of_the_dashboard_has_samples(
    rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path, tmp_path: Path
) -> None:
    program("prometheus")
    async with own_bridge(rabbit, redis_node.url, local_dir, BRIDGE_PUSH_ALLOW="http://127.0.0.1") as own:
        async with scraping(own.bridge.url.removeprefix("http://"), tmp_path) as prometheus:
            await until_answered(prometheus, 'up{job="delaybridge"} == 1')
            await load(own.topic)
            wanted = expressions()
            assert len(wanted) > 40
            await until_answered(prometheus, *wanted)
        page = (await own.topic.client.get("/metrics")).content
    linting = await create_subprocess_exec(
        program("promtool"), "check", "metrics", stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    assert await linting.communicate(page) == (b"", b"")
