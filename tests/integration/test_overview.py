"""Tests the overview, its stream and the slots on a running bridge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest_asyncio

from bridge.http.console.live import MOST_STREAMS
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.integration.own import Own, own_bridge
from tests.waiting import pause

WAITING = 300


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def own(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Own]:
    settings = {"BRIDGE_MANAGEMENT_URL": rabbit.management_url, "BRIDGE_WORKERS": "2"}
    async with own_bridge(rabbit, redis_node.url, local_dir / "overview", **settings) as own:
        client = own.topic.client
        messages = [{"body": number, "delay": 1_000_000 + 60_000 * number} for number in range(WAITING)]
        sent = await client.post("/v1/topics/orders/messages/batch", json={"messages": messages})
        assert sent.status_code == 200, sent.text
        yield own


async def overview(own: Own) -> dict[str, Any]:
    answer = await own.topic.client.get("/v1/overview")
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


async def test_the_overview_counts_what_waits_by_due_moment(own: Own) -> None:
    shown = await overview(own)
    assert (shown["ok"], shown["missing"], shown["counts"]["waiting"]) == (True, [], WAITING)
    due = shown["due"]
    assert (due["overdue"], sum(due["minute"]), sum(due["day"]) + due["later"]) == (0, 0, WAITING)
    assert 30 <= sum(due["hour"]) <= 45  # 16 to 60 minutes from now, one a minute
    (page,) = shown["queues_pages"].values()
    assert page.endswith(f"/#/queues/{own.vhost}/")
    assert "@" not in page


async def test_rates_and_lateness_are_of_all_workers(own: Own) -> None:
    client = own.topic.client
    while not (shown := await overview(own))["rates"]:
        await pause()
    for _ in range(40):  # over many connections, so that both workers get some
        async with httpx2.AsyncClient(base_url=own.bridge.url) as other:
            assert (await other.post("/v1/topics/soon/messages", json={"body": 1, "delay": 300})).status_code == 201
    accepted = 0.0
    while not accepted or not shown["lateness"] or shown["lateness"]["released"] < 40:
        shown = (await client.get("/v1/overview")).json()
        accepted = max(accepted, (shown["rates"] or {}).get("accepted", 0))
        await pause()
    assert shown["lateness"]["p50_ms"] is not None


async def test_slots_show_the_messages_that_bundles_hide(own: Own) -> None:
    answer = await own.topic.client.get("/v1/slots")
    shown = answer.json()
    messages = sum(slot["messages"] for slot in shown["slots"])
    in_rabbitmq = sum(slot["in_rabbitmq"] for slot in shown["slots"])
    assert messages + shown["overdue"] + shown["soon"] == (await overview(own))["counts"]["waiting"] == WAITING
    assert 0 < in_rabbitmq < WAITING
    waits_ms = [slot["wait_ms"] for slot in shown["slots"]]
    assert (len(waits_ms), waits_ms) == (177, sorted(waits_ms))
    in_an_hour = [slot for slot in shown["slots"] if 1_020_000 <= slot["wait_ms"] < 3_600_000]
    assert {slot["messages"] for slot in in_an_hour} <= {0, 1, 2}


async def test_streams_show_the_samples_and_are_bounded(own: Own) -> None:
    limits = httpx2.Limits(max_connections=None)
    async with AsyncExitStack() as streams, httpx2.AsyncClient(base_url=own.bridge.url, limits=limits) as client:

        async def stream() -> httpx2.Response:
            return await streams.enter_async_context(client.stream("GET", "/console/live"))

        first = await stream()
        assert (first.status_code, first.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        lines = first.aiter_lines()
        events = [line async for line in _until_data(lines)]
        assert events[0] == "event: overview"
        assert orjson.loads(events[-1].removeprefix("data: "))["counts"]["waiting"] == WAITING
        # The kernel spreads connections over two workers, each with its own bound.
        answers = await asyncio.gather(*(stream() for _ in range(2 * MOST_STREAMS)))
        assert {answer.status_code for answer in answers} == {200, 503}
        assert sum(answer.status_code == 200 for answer in answers) <= 2 * MOST_STREAMS - 1


async def _until_data(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    async for line in lines:
        yield line
        if line.startswith("data: "):
            return
