"""Tests that a bridge that is killed leaves its bundles to the next one."""

from __future__ import annotations

import httpx2

from tests.fault.stage import Stage, killed, started
from tests.forked_bridge import PATIENCE
from tests.integration.topic import Topic


async def test_a_killed_bridge_leaves_its_bundles_to_the_next_one(stage: Stage) -> None:
    first, second = (stage.bridge(**PATIENCE) for _ in range(2))
    await started(first)
    async with httpx2.AsyncClient(base_url=first.url, timeout=60) as client:
        topic = Topic(client, "bundle-killed")
        await topic.put_policy()
        ids = [f"m-{at:03}" for at in range(300)]
        results = await topic.send_many(*({"id": one, "body": one, "delay": "2s"} for one in ids))
        assert {one["status"] for one in results} == {201}
    await killed(first)
    await started(second)
    async with httpx2.AsyncClient(base_url=second.url, timeout=60) as client:
        topic = topic.through(client)
        assert sorted(await topic.pull_ids(len(ids), max=100)) == ids
        assert await topic.pull(wait="1s") == []
    await killed(second)
