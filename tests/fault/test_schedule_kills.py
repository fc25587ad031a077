"""Tests that three processes, which are killed at random moments, send each tick of schedules exactly once.

BRIDGE_TEST_TICKS=500 makes it as long as that, in place of 40 ticks.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx2
import pytest

from tests.fault.stage import Stage, started
from tests.forked_bridge import ForkedBridge
from tests.integration.schedules import Schedule
from tests.integration.topic import Topic
from tests.waiting import pause

_TICKS: Final = int(os.environ.get("BRIDGE_TEST_TICKS", "40"))
_SCHEDULES: Final = max(5, _TICKS // 25)
_SECONDS: Final = _TICKS // _SCHEDULES


class Consumer:
    """Takes messages as they come, and acknowledges each at once. So most ticks have ended before they are repeated."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self.taken: Counter[str] = Counter()

    async def run(self) -> None:
        while True:
            pulled = await self._topic.pull(max=100, wait="1s")
            self.taken.update(message["id"] for message in pulled)
            if pulled:
                await self._topic.ack_many(receipts=[message["receipt"] for message in pulled])


async def kill_at_random(planners: list[ForkedBridge], seed: int, end: datetime) -> None:
    """Kills a planner, often before it has come far, and starts it again. Two others go on, or are starting."""
    chosen = random.Random(seed)
    while datetime.now(UTC) < end:
        await pause(chosen.uniform(0.1, 1.5))
        planner = chosen.choice(planners)
        await asyncio.to_thread(planner.kill)
        await pause(chosen.uniform(0.0, 0.5))
        await started(planner)


@pytest.mark.parametrize("seed", [1])
async def test_each_tick_comes_exactly_once_although_planners_are_killed(
    stage: Stage, http: httpx2.AsyncClient, seed: int
) -> None:
    api = stage.bridge(roles="api", store_timeout="10s", broker_timeout="10s")
    planners = [stage.bridge(roles="checkpoint") for _ in range(3)]
    await started(api, *planners)
    async with httpx2.AsyncClient(base_url=api.url, timeout=90) as client:
        topic = Topic(client, "ticks")
        await topic.put_policy()
        start = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=8)
        end = start + timedelta(seconds=_SECONDS - 1)
        expected = []
        for number in range(_SCHEDULES):
            schedule = Schedule(topic, f"s{number}")
            fields: Any = {"start": start.isoformat(), "end": end.isoformat(), "missed": "all", "missed_max": 1_000}
            await schedule.put(every="1s", **fields)
            expected += [
                f"{schedule.name}@{start + timedelta(seconds=second):%Y-%m-%dT%H:%M:%SZ}" for second in range(_SECONDS)
            ]
        consumer = Consumer(topic)
        consuming = asyncio.create_task(consumer.run())
        await kill_at_random(planners, seed, end)
        for number in range(_SCHEDULES):
            while (await Schedule(topic, f"s{number}").look())["sent"] < _SECONDS:
                await pause(0.2)
        while not consumer.taken.keys() >= set(expected) and not consuming.done():
            await pause(0.2)
        consuming.cancel()
        await asyncio.gather(consuming, return_exceptions=True)
        await topic.send(id="marker")
        consumer.taken.update(await topic.drain("marker"))
    assert sorted(consumer.taken.elements()) == sorted(expected)
