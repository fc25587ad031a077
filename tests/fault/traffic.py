"""Sends and consumes messages through several bridges, while a test restarts them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from random import Random
from typing import Any

import httpx2

from tests.fault.api import Api

PRODUCERS, CONSUMERS = 8, 4


class Around(Api):
    """A client that calls bridges in rotation. A bridge that is removed from `urls` gets no more calls, as from a
    balancer."""

    def __init__(self, http: httpx2.AsyncClient, urls: Sequence[str]) -> None:
        super().__init__(http, urls[0])
        self.urls = list(urls)
        self._turns = count()

    async def call(self, method: str, path: str, json: Any = None) -> httpx2.Response:
        self._url = self.urls[next(self._turns) % len(self.urls)]
        return await super().call(method, path, json)


class Traffic:
    """Producers and consumers. Each message is acknowledged long before its lease ends."""

    def __init__(self, api: Api, topic: str) -> None:
        self._api = api
        self._topic = topic
        self._random = Random(1)
        self.sent: set[str] = set()
        self.pulled: Counter[str] = Counter()
        self.stop = asyncio.Event()
        self._happened = asyncio.Condition()

    async def produce(self, lane: int) -> None:
        number = 0
        while not self.stop.is_set():
            message_id = f"{lane}-{number}"
            await self._api.sent(self._topic, message_id, delay=self._random.randint(0, 2_000))
            self.sent.add(message_id)
            number += 1
            await self._tell()
            await asyncio.sleep(self._random.uniform(0, 0.5))

    async def consume(self) -> None:
        while True:
            got = await self._api.pull(self._topic, most=10, wait_ms=20_000, lease_ms=120_000)
            self.pulled.update(one["id"] for one in got)
            if got:
                await self._api.ack(self._topic, [one["receipt"] for one in got])
            await self._tell()

    async def more_sent(self, count: int) -> None:
        until = len(self.sent) + count
        await self._until(lambda: len(self.sent) >= until)

    async def all_pulled(self) -> None:
        await self._until(lambda: self.sent <= self.pulled.keys())

    async def _until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(60), self._happened:
            await self._happened.wait_for(reached)

    async def _tell(self) -> None:
        async with self._happened:
            self._happened.notify_all()


@asynccontextmanager
async def under_load(api: Api, topic: str) -> AsyncIterator[Traffic]:
    """Sends and consumes messages while the block runs, and consumes the rest after it. Then each message that was sent
    must have come exactly once."""
    traffic = Traffic(api, topic)
    consumers = [asyncio.create_task(traffic.consume()) for _ in range(CONSUMERS)]
    producers = [asyncio.create_task(traffic.produce(lane)) for lane in range(PRODUCERS)]
    try:
        await traffic.more_sent(100)
        yield traffic
        traffic.stop.set()
        await asyncio.gather(*producers)
        await traffic.all_pulled()
    finally:
        for task in (*producers, *consumers):
            task.cancel()
        await asyncio.gather(*producers, *consumers, return_exceptions=True)
    assert traffic.pulled.keys() == traffic.sent
    assert [one for one, times in traffic.pulled.items() if times > 1] == []
