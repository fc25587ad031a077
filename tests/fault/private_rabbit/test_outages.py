"""Tests outages of RabbitMQ and Redis: calls are refused in time, and the bridge recovers without a loss."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from time import monotonic

import httpx2
import pytest
import pytest_asyncio

from tests.fault.api import Api, instant_ms, now_ms
from tests.fault.stage import Stage, killed, started
from tests.forked_bridge import ForkedBridge
from tests.waiting import pause

ANSWERED_WITHIN_S = 4.0
CLOSED, OPEN = 0.0, 2.0  # values of a breaker's gauge
Outage = Callable[[Stage], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def redis_killed(stage: Stage) -> AsyncIterator[None]:
    await killed(stage.redis)
    yield
    await started(stage.redis)


@asynccontextmanager
async def redis_frozen(stage: Stage) -> AsyncIterator[None]:
    stage.redis.freeze()
    try:
        yield
    finally:
        stage.redis.thaw()


@asynccontextmanager
async def rabbit_killed(stage: Stage) -> AsyncIterator[None]:
    # A kill may leave a queue without a leader when RabbitMQ has not persisted it yet.
    await asyncio.to_thread(stage.rabbit.sync)
    await killed(stage.rabbit)
    yield
    await started(stage.rabbit)


@asynccontextmanager
async def rabbit_frozen(stage: Stage) -> AsyncIterator[None]:
    stage.rabbit.freeze()
    try:
        yield
    finally:
        stage.rabbit.thaw()


@asynccontextmanager
async def memory_alarm(stage: Stage) -> AsyncIterator[None]:
    async with _alarm(stage, "vm_memory_monitor:set_vm_memory_high_watermark", "0.000001", "0.4"):
        yield


@asynccontextmanager
async def disk_alarm(stage: Stage) -> AsyncIterator[None]:
    async with _alarm(stage, "rabbit_disk_monitor:set_disk_free_limit", "1000000000000000", "50000000"):
        yield


@asynccontextmanager
async def _alarm(stage: Stage, setting: str, rings: str, ends: str) -> AsyncIterator[None]:
    await asyncio.to_thread(stage.rabbit.evaluate, f"ok = {setting}({rings})")
    try:
        yield
    finally:
        await asyncio.to_thread(stage.rabbit.evaluate, f"ok = {setting}({ends})")


FROZEN: list[Outage] = [redis_frozen, rabbit_frozen]
OUTAGES: list[Outage] = [redis_killed, redis_frozen, rabbit_killed, rabbit_frozen, memory_alarm, disk_alarm]


@pytest_asyncio.fixture(scope="module")
async def bridge(stage: Stage) -> AsyncIterator[ForkedBridge]:
    bridge = stage.bridge()
    await started(bridge)
    yield bridge
    bridge.kill()


async def refused(api: Api, path: str, body: object) -> bool:
    """Whether the call is answered in time with a 503 that has `Retry-After`. False when it is done."""
    asked_s = monotonic()
    response = await api.call("POST", path, body)
    assert monotonic() - asked_s < ANSWERED_WITHIN_S
    if response.is_success:
        return False
    assert (response.status_code, response.headers["content-type"]) == (503, "application/problem+json"), response.text
    assert int(response.headers["retry-after"]) >= 1
    assert response.json()["title"] == "Temporarily unavailable: nothing was promised"
    return True


async def breaker(api: Api, part: str) -> float:
    """The value of the part's gauge."""
    exposition = (await api.call("GET", "/metrics")).text
    (value,) = re.findall(rf'^delaybridge_breaker{{part="{part}"}} (\S+)$', exposition, re.MULTILINE)
    return float(value)


@pytest.mark.parametrize("outage", OUTAGES, ids=lambda outage: outage.__name__)
async def test_calls_in_an_outage_are_refused_in_time_and_no_message_is_lost(
    stage: Stage, bridge: ForkedBridge, http: httpx2.AsyncClient, outage: Outage
) -> None:
    api, topic, process = Api(http, bridge.url), outage.__name__, bridge.pid
    sends, pulls = f"/v1/topics/{topic}/messages", f"/v1/topics/{topic}/pull"
    part = "store" if outage in (redis_killed, redis_frozen) else "broker"
    seen = len(told(bridge, part))
    await api.sent(topic, "held")
    held = (await api.pull_one(topic, lease_ms=600_000))["receipt"]
    await api.sent(topic, "ready")
    due_ms = instant_ms((await api.sent(topic, "due-meanwhile", delay=1_500))["due_at"])
    async with outage(stage):
        while not await refused(api, sends, {"id": "refused", "body": 1, "delay": 100}):
            # An alarm takes a moment to reach the publishers.
            assert outage in (memory_alarm, disk_alarm)
            await pause()
        calls = [refused(api, sends, {"id": f"refused-{n}", "body": n, "delay": 100}) for n in range(20)]
        assert all(await asyncio.gather(*calls))
        # The log says so though nobody asks for the health.
        while told(bridge, part)[seen:][:1] != ["server.away"]:
            await refused(api, sends, {"id": "refused", "body": 1, "delay": 100})
            await pause()
        if outage not in FROZEN:
            # The server refuses or blocks, and is not silent.
            for number in range(20):
                assert await refused(api, sends, {"id": f"refused-{number}", "body": number, "delay": 100})
                assert await breaker(api, part) == CLOSED
        assert await refused(api, pulls, {"max": 10})
        assert await refused(api, pulls, {"max": 10, "wait": 100})
        assert await refused(api, pulls, {"wait": 60_000, "ack": [held]})
        if part == "broker":  # Redis alone records an ack
            assert (await api.look(topic, "held"))["state"] == "acked"
        ready = await api.call("GET", "/health/ready")
        assert (ready.status_code, ready.headers["content-type"]) == (503, "application/problem+json")
        while now_ms() < due_ms:
            await api.call("GET", "/health/live")
            await pause()
        # The checkpoint notices the outage even when a frozen broker delivers nothing to it, and when a broker in alarm
        # still takes its first publish.
        async with asyncio.timeout(30):
            while "checkpoint" not in await waiting_parts(api):
                await pause()
    while told(bridge, part)[-1] != "server.back":
        await pause()
    assert (await api.insist("GET", "/health/ready")).status_code == 200
    repeated = await api.insist("POST", pulls, {"ack": [held]})
    assert repeated.json()["acked"] == [{"id": "held", "result": "acked"}]
    await api.sent(topic, "refused", delay=100)
    wanted = {"ready", "due-meanwhile", "refused"}
    first = repeated.json()["messages"]
    pulled = [*first, *await api.drain(topic, len(wanted) - len(first))]
    # A refused send may still have stored its message, as a refusal promises nothing.
    assert wanted <= {one["id"] for one in pulled} <= wanted | {f"refused-{n}" for n in range(20)}
    assert len({one["id"] for one in pulled}) == len(pulled)
    assert all(now_ms() >= instant_ms(one["due_at"]) for one in pulled)
    assert (bridge.running, bridge.pid) == (True, process)
    # All queues were silent together.
    assert "did not confirm" not in (await api.insist("GET", "/health/ready")).text


def told(bridge: ForkedBridge, part: str) -> list[str]:
    """What the log says of this server: that it is away, and that it is back."""
    lines = [json.loads(line) for line in bridge.log_file.read_text().splitlines() if '"event": "server.' in line]
    return [line["event"] for line in lines if line["part"] == part]


async def waiting_parts(api: Api) -> set[str]:
    """The parts that are not `ok` in the health answer."""
    response = await api.call("GET", "/health/ready")
    return {part for part, state in response.json()["parts"].items() if state != "ok"}


async def test_refused_pull_during_an_alarm_counts_as_no_delivery(
    stage: Stage, bridge: ForkedBridge, http: httpx2.AsyncClient
) -> None:
    api = Api(http, bridge.url)
    await api.sent("patient", "one")
    async with memory_alarm(stage):
        while not await refused(api, "/v1/topics/patient/messages", {"id": "two", "body": 1}):
            await pause()
        # 25 is more than the delivery limit of the ready queue.
        for _ in range(25):
            assert await refused(api, "/v1/topics/patient/pull", {})
    await api.insist("GET", "/health/ready")
    assert (await api.pull_one("patient"))["attempts"] == 1
