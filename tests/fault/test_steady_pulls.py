"""Tests steady pulls of two processes: their shares, and the buffered messages of a process that is killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

import httpx2

from tests.fault.stage import Stage, killed, started
from tests.forked_bridge import PATIENCE, ForkedBridge
from tests.integration.topic import Topic
from tests.waiting import pause

CONSUMERS = 8
IDS = {f"m-{at:03}" for at in range(160)}


class Consumers:
    """Pull one message and acknowledge it, again and again. `acked`: the ids whose acks were answered."""

    def __init__(self, topic: Topic) -> None:
        self.acked: set[str] = set()
        self.topic = topic

    async def run(self) -> None:
        with suppress(httpx2.TransportError):
            while True:
                for message in await self.topic.pull(max=1, wait="1s", lease="3s"):
                    assert message["id"] not in self.acked
                    await self.topic.ack(message)
                    self.acked.add(message["id"])


@asynccontextmanager
async def consuming(bridge: ForkedBridge, name: str) -> AsyncIterator[Consumers]:
    async with httpx2.AsyncClient(base_url=bridge.url, timeout=60) as client:
        consumers = Consumers(Topic(client, name))
        tasks = [asyncio.create_task(consumers.run()) for _ in range(CONSUMERS)]
        yield consumers
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            assert ended is None or isinstance(ended, asyncio.CancelledError), ended


@asynccontextmanager
async def filled(stage: Stage) -> AsyncIterator[tuple[ForkedBridge, ForkedBridge, str]]:
    """Two bridges, and a topic whose messages are ready."""
    first, second, name = stage.bridge(**PATIENCE), stage.bridge(**PATIENCE), f"steady-{uuid4().hex[:12]}"
    await started(first, second)
    async with httpx2.AsyncClient(base_url=first.url, timeout=60) as client:
        results = await Topic(client, name).send_many(*({"id": one, "body": one} for one in sorted(IDS)))
        assert {one["status"] for one in results} == {201}
    yield first, second, name
    await killed(first, second)


async def test_messages_in_hand_of_a_killed_process_are_pulled_from_another(stage: Stage) -> None:
    async with filled(stage) as (first, second, name):
        async with consuming(first, name) as mortal:
            while len(mortal.acked) < CONSUMERS * 5:
                await pause()
            await killed(first)
        async with consuming(second, name) as survivors:
            # An ack whose answer was lost may have ended its message.
            for one in IDS:
                while one not in mortal.acked | survivors.acked and await survivors.topic.state(one) != "acked":
                    await pause()
            assert not mortal.acked & survivors.acked
            assert len(mortal.acked | survivors.acked) >= len(IDS) - CONSUMERS


async def test_two_processes_with_steady_pulls_share_the_messages(stage: Stage) -> None:
    async with (
        filled(stage) as (first, second, name),
        consuming(first, name) as some,
        consuming(second, name) as others,
    ):
        # A process that the machine starves gets fewer than its half, and yet some of each wave. So waves come until
        # both have had a tenth of a full one.
        sent, waves = set(IDS), 0
        while min(len(some.acked), len(others.acked)) < len(IDS) / 10:
            if len(some.acked) + len(others.acked) < len(sent):
                await pause()
                continue
            waves += 1
            wave = {f"{one}-{waves}" for one in IDS}
            await some.topic.send_many(*({"id": one, "body": one} for one in sorted(wave)))
            sent |= wave
        while len(some.acked) + len(others.acked) < len(sent):
            await pause()
        assert some.acked | others.acked == sent
