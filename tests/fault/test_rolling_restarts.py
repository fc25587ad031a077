"""Tests that restarting bridges one by one under load loses no message, delivers none twice and delays no client."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import pytest

from bridge.local.ports import free_ports
from tests.fault.api import Api
from tests.fault.stage import Stage, killed, started
from tests.forked_bridge import PATIENT, ForkedBridge

BRIDGES, ROUNDS = 3, 2
PRODUCERS, CONSUMERS = 8, 4


class Around(Api):
    """A client that calls the bridges in rotation."""

    def __init__(self, http: httpx2.AsyncClient, urls: Sequence[str]) -> None:
        super().__init__(http, urls[0])
        self._urls = cycle(urls)

    async def call(self, method: str, path: str, json: Any = None) -> httpx2.Response:
        self._url = next(self._urls)
        return await super().call(method, path, json)


class OneOfSeveral(ForkedBridge):
    """A bridge that is ready once its own log says so, as any bridge may answer on a shared port."""

    def launch(self) -> None:
        self._starts = self._logged_starts()
        super().launch()

    def is_ready(self) -> bool:
        return self._logged_starts() > self._starts and super().is_ready()

    def _logged_starts(self) -> int:
        return self.log_file.read_text().count("service.started") if self.log_file.exists() else 0


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
            await asyncio.sleep(self._random.uniform(0, 0.1))

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


@pytest.mark.timeout(300)
@pytest.mark.parametrize("shared", [False, True], ids=["a port each", "one port"])
async def test_rolling_restart_loses_no_message_and_delivers_none_twice(
    stage: Stage, http: httpx2.AsyncClient, tmp_path: Path, shared: bool
) -> None:
    ports = free_ports(1) * BRIDGES if shared else free_ports(BRIDGES)
    servers = {"BRIDGE_AMQP_URL": stage.rabbit.amqp_url, "BRIDGE_REDIS_URL": stage.redis.url, **PATIENT}
    bridges = [
        OneOfSeveral(tmp_path / str(number) / "bridge.log", port, servers, port_is_shared=shared)
        for number, port in enumerate(ports)
    ]
    await started(*bridges)
    api = Around(http, [bridge.url for bridge in bridges])
    traffic = Traffic(api, "shared" if shared else "apart")
    consumers = [asyncio.create_task(traffic.consume()) for _ in range(CONSUMERS)]
    producers = [asyncio.create_task(traffic.produce(lane)) for lane in range(PRODUCERS)]
    try:
        await traffic.more_sent(100)
        for bridge in islice(cycle(bridges), ROUNDS * BRIDGES):
            bridge.ask_to_stop()
            await asyncio.to_thread(bridge.wait_until_stopped)
            assert bridge.exit_code == 0
            await started(bridge)
            await traffic.more_sent(20)
        traffic.stop.set()
        await asyncio.gather(*producers)
        await traffic.all_pulled()
    finally:
        for task in (*producers, *consumers):
            task.cancel()
        await asyncio.gather(*producers, *consumers, return_exceptions=True)
        await killed(*bridges)
    assert set(traffic.pulled) == traffic.sent
    assert [one for one, times in traffic.pulled.items() if times > 1] == []
