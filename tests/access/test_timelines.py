"""Tests that a message's timeline tells each of its transitions, with the token that asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY
from uuid import uuid4

import httpx2
import pytest_asyncio

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.model.durations import parse_instant_ms
from tests.access.conftest import Mint, id_of
from tests.integration.own import own_bridge
from tests.integration.topic import Json, Topic, due_ms


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def client(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a bridge on a virtual host of its own. Elsewhere the worker's bridge, which has another Redis, would
    release some of the messages."""
    settings = {"BRIDGE_ACCESS": "tokens", "BRIDGE_REDIS_PREFIX": "delay"}
    async with own_bridge(rabbit, redis_node.url, local_dir, **settings) as own:
        yield own.topic.client


class Shop:
    """The topic of a producer and of a consumer, each with a token of its own."""

    def __init__(self, name: str, producer: httpx2.AsyncClient, consumer: httpx2.AsyncClient) -> None:
        self.producing, self.consuming = Topic(producer, name), Topic(consumer, name)
        self.producer, self.consumer = (
            id_of({"Authorization": client.headers["authorization"]}) for client in (producer, consumer)
        )


@pytest_asyncio.fixture
async def shop(client: httpx2.AsyncClient, mint: Mint) -> AsyncIterator[Shop]:
    url, sends, consumes = client.base_url, await mint.make("send"), await mint.make("consume", "admin")
    async with (
        httpx2.AsyncClient(base_url=url, timeout=90, headers=sends) as producer,
        httpx2.AsyncClient(base_url=url, timeout=90, headers=consumes) as consumer,
    ):
        yield Shop(f"timeline-{uuid4().hex[:12]}", producer, consumer)


async def timeline(topic: Topic, message_id: str) -> Json:
    answer: Json = await topic.call("GET", f"/messages/{message_id}/timeline")
    return answer


def step(what: str, **members: Any) -> Json:
    return {"what": what, "attempt": 0, "slot": None, "token_id": None, "reason": None, **members}


async def test_a_timeline_has_each_transition_of_a_life_with_its_token(shop: Shop) -> None:
    sent = await shop.producing.send(id="m-1", delay="1h")
    moved = await shop.producing.move("m-1", delay="1.9s")
    first = await shop.consuming.pull_one(lease="30s")
    await shop.consuming.extend(first, "40s")
    await shop.consuming.extend(first, "50s")
    await shop.consuming.nack(first, delay="1.9s", reason="card refused")
    second = await shop.consuming.pull_one(lease="20m")
    acked = await shop.consuming.ack(second)

    found = await timeline(shop.producing, "m-1")
    moments = [parse_instant_ms(one.pop("at")) for one in found["items"]]
    late_ms = [one.pop("late_ms") for one in found["items"]]
    assert (found["topic"], found["id"], found["complete"]) == (shop.producing.name, "m-1", True)
    assert found["items"] == [
        step("sent", slot="delay.000d-00h-59m", token_id=shop.producer),
        step("moved", slot=ANY, token_id=shop.producer),
        step("released"),
        step("leased", attempt=1, token_id=shop.consumer),
        step("extended", attempt=1, token_id=shop.consumer),
        step("nacked", attempt=1, slot=ANY, token_id=shop.consumer, reason="card refused"),
        step("released", attempt=1),
        step("leased", attempt=2, token_id=shop.consumer),
        step("acked", attempt=2, token_id=shop.consumer),
    ]
    # A busy process names a copy later, and tells what was left of its delay then.
    assert all(found["items"][at]["slot"].startswith("delay.000d-00h-00m-0") for at in (1, 5))
    assert moments == sorted(moments)
    assert (moments[0], moments[-1]) == tuple(parse_instant_ms(acked[at]) for at in ("created_at", "ended_at"))
    assert sent["created_at"] == acked["created_at"]
    assert [ms for ms in late_ms if ms is not None] == [moments[2] - due_ms(moved), moments[6] - due_ms(acked)]
    assert all(late_ms[at] is not None for at in (2, 6))


async def test_a_dead_letter_that_is_replayed_goes_on_with_its_timeline(shop: Shop) -> None:
    await shop.producing.send(id="m-1", delay="2s", max_retry=0)
    await shop.consuming.nack(await shop.consuming.pull_one(), reason="x" * 150)
    await shop.consuming.call("POST", "/dead/m-1/replay")
    await shop.consuming.pull_one()
    await shop.producing.delete("m-1")

    found = await timeline(shop.consuming, "m-1")
    assert found["complete"]
    assert [(one["what"], one["attempt"], one["token_id"]) for one in found["items"]] == [
        ("sent", 0, shop.producer),
        ("released", 0, None),
        ("leased", 1, shop.consumer),
        ("buried", 1, shop.consumer),
        ("replayed", 0, shop.consumer),
        ("released", 0, None),
        ("leased", 1, shop.consumer),
        ("deleted", 1, shop.producer),
    ]
    assert found["items"][3]["reason"] == "x" * 100


async def test_a_timeline_keeps_the_latest_sixteen_transitions(shop: Shop) -> None:
    for number in range(3):
        await shop.producing.send(id=f"m-{number}", delay="1h")
    await shop.producing.delete("m-1")
    await shop.producing.send(id="m-1", delay="2h")
    for hours in range(2, 19):
        await shop.producing.move("m-0", delay=f"{hours}h")

    found = await timeline(shop.consuming, "m-0")
    assert ([one["what"] for one in found["items"]], found["complete"]) == (["moved"] * 16, False)
    again = await timeline(shop.consuming, "m-1")
    assert [(one["what"], one["slot"]) for one in again["items"]] == [("sent", "delay.000d-01h")]
    await shop.consuming.call("GET", "/messages/unknown/timeline", expect=404)


async def test_calls_that_share_a_group_keep_their_tokens_apart(
    shop: Shop, client: httpx2.AsyncClient, mint: Mint
) -> None:
    headers = [await mint.make("send", "consume") for _ in range(2)]
    async with (
        httpx2.AsyncClient(base_url=client.base_url, timeout=90, headers=headers[0]) as first,
        httpx2.AsyncClient(base_url=client.base_url, timeout=90, headers=headers[1]) as second,
    ):
        both = [shop.producing.through(first), shop.producing.through(second)]
        await asyncio.gather(*(both[number % 2].send(id=f"m-{number}") for number in range(20)))
        pulled = await asyncio.gather(*(both[number % 2].pull_one() for number in range(20)))
        pulled_by = {message["id"]: id_of(headers[number % 2]) for number, message in enumerate(pulled)}
        for number in range(20):
            steps = (await timeline(shop.producing, f"m-{number}"))["items"]
            wanted = [("sent", id_of(headers[number % 2])), ("leased", pulled_by[f"m-{number}"])]
            # A few of the first sends to a topic go through the checkpoint.
            assert [(one["what"], one["token_id"]) for one in steps if one["what"] != "released"] == wanted
