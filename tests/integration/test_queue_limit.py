"""Tests a virtual host that has its most queues: only a topic that needs another queue is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.integration.own import Own, own_bridge
from tests.integration.topic import Json
from tests.waiting import pause

pytestmark = pytest.mark.timeout(60)


@pytest_asyncio.fixture
async def own(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Own]:
    settings = {"BRIDGE_VERIFY_EVERY": "1s", "BRIDGE_MANAGEMENT_URL": rabbit.management_url}
    async with own_bridge(rabbit, redis_node.url, local_dir, **settings) as own:
        yield own


async def health(own: Own) -> Json:
    """The health of the bridge, which is ready with any finding."""
    answer = await own.topic.client.get("/health/ready")
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


async def test_topic_beyond_the_most_queues_concerns_no_other(own: Own, rabbit: RabbitNode) -> None:
    topic, gone = own.topic, own.with_fresh_topic().topic
    for one in (topic, gone):
        await one.put_policy()
    async with httpx2.AsyncClient(base_url=f"{rabbit.management_url}/api/", timeout=60) as management:
        limit = f"vhost-limits/{own.vhost}/max-queues"
        queues = (await management.get(f"queues/{own.vhost}?columns=name")).json()
        (await management.put(limit, json={"value": len(queues)})).raise_for_status()
        new = own.with_fresh_topic().topic
        refused = await new.send(id="m-1", expect=503)
        assert new.ready_queue in refused["detail"]
        assert "limit" in refused["detail"]
        await new.call("GET", expect=404)
        # These are committed together.
        await asyncio.gather(*(topic.send(id=f"with-{number}") for number in range(4)), new.send(id="m-2", expect=503))
        assert (await health(own))["status"] == "ok"

        (await management.put(limit, json={"value": len(queues) - 1})).raise_for_status()
        await own.amqp.delete_queue(gone.ready_queue)
        while not (findings := (await health(own))["findings"]):
            await pause()
        (finding,) = findings
        assert finding["severity"] == "warning"
        assert finding["says"].startswith(f"the queue {gone.ready_queue} of the topic {gone.name} is missing: ")
        await topic.send(id="m-3")

        (await management.delete(limit)).raise_for_status()
    while (await health(own))["findings"]:
        await pause()
    await new.send(id="m-1")
