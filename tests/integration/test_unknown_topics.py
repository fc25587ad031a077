"""Tests that reads of topics that nobody made create nothing, and that polls of them wake once they exist."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic
from uuid import uuid4

import httpx2
import pytest
import pytest_asyncio

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.store.client import Store
from tests.forked_bridge import PATIENT, ForkedBridge
from tests.integration.amqp import Amqp
from tests.integration.topic import PATIENCE, Topic
from tests.waiting import pause


@pytest_asyncio.fixture(scope="module")
async def second(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a second bridge process on the same servers."""
    settings = {"BRIDGE_AMQP_URL": rabbit.amqp_url, "BRIDGE_REDIS_URL": redis_node.url, **PATIENT}
    process = ForkedBridge(local_dir / "second-reader" / "bridge.log", free_ports(1)[0], settings)
    await asyncio.to_thread(process.start)
    async with httpx2.AsyncClient(base_url=process.url, timeout=90) as client:
        yield client
    await asyncio.to_thread(process.kill)


@pytest.fixture
def unknown(client: httpx2.AsyncClient) -> Topic:
    """A topic that nobody made."""
    return Topic(client, f"unknown-{uuid4().hex[:12]}")


READS: dict[str, tuple[str, str, object, int]] = {
    "pull": ("POST", "/pull", {"wait": 0}, 200),
    "long poll": ("POST", "/pull", {"wait": "300ms"}, 200),
    "counts": ("GET", "", None, 404),
    "message": ("GET", "/messages/m-1", None, 404),
    "messages": ("GET", "/messages", None, 404),
    "search": ("GET", "/messages?state=waiting", None, 404),
    "dead letters": ("GET", "/dead", None, 404),
    "replay": ("POST", "/dead/replay", {}, 404),
    "drop": ("DELETE", "/dead", None, 404),
    "replay of one": ("POST", "/dead/m-1/replay", None, 404),
    "ack": ("POST", "/messages/m-1/ack", {}, 404),
    "acks": ("POST", "/ack", {"ids": ["m-1"]}, 200),
    "delete": ("DELETE", "/messages/m-1", None, 404),
}


@pytest.mark.parametrize("call", READS.values(), ids=READS)
async def test_call_about_an_unknown_topic_makes_no_queue(
    unknown: Topic, amqp: Amqp, call: tuple[str, str, object, int]
) -> None:
    method, path, body, status = call
    await unknown.call(method, path, body, expect=status)
    assert await amqp.count(unknown.ready_queue) is None
    assert await amqp.count(unknown.dead_queue) is None
    await unknown.call("GET", expect=404)


async def test_pull_by_priority_of_unknown_topics_makes_no_queue(unknown: Topic, amqp: Amqp) -> None:
    topics = [unknown.beside(str(number)) for number in range(32)]
    body = {"topics": [topic.name for topic in topics], "wait": "300ms"}
    answer = await unknown.client.post("/v1/pull", json=body)
    assert (answer.status_code, answer.json()) == (200, {"messages": []})
    assert [await amqp.count(topic.ready_queue) for topic in topics] == [None] * len(topics)


async def test_poll_of_an_unknown_topic_wakes_by_its_first_message_through_another_process(
    unknown: Topic, second: httpx2.AsyncClient
) -> None:
    poll = asyncio.create_task(unknown.pull_one())
    await until_asked(unknown)
    sent = await unknown.through(second).send(delay="2s")
    pulled = await poll
    assert pulled["id"] == sent["id"]


async def test_poll_of_a_known_and_an_unknown_topic_wakes_by_either(
    topic: Topic, unknown: Topic, second: httpx2.AsyncClient, amqp: Amqp
) -> None:
    body = {"topics": [topic.name, unknown.name], "wait": PATIENCE}
    for made in (topic, unknown):
        poll = asyncio.create_task(unknown.client.post("/v1/pull", json=body))
        await amqp.until_consumers(topic.ready_queue, 1)
        sent = await made.through(second).send()
        answer = await poll
        assert answer.status_code == 200, answer.text
        (pulled,) = answer.json()["messages"]
        assert (pulled["topic"], pulled["id"]) == (made.name, sent["id"])
        await made.ack(pulled)


async def test_poll_of_an_unknown_topic_ends_on_time(unknown: Topic) -> None:
    began_s = monotonic()
    assert await unknown.pull(wait="1s") == []
    assert monotonic() - began_s >= 0.99


async def test_topic_that_redis_no_longer_lists_is_pulled(
    topic: Topic, second: httpx2.AsyncClient, store: Store
) -> None:
    await topic.send(id="m-1")
    await store.command("SREM", "delay/topics", topic.name)
    assert (await topic.through(second).pull_one())["id"] == "m-1"


async def test_pull_of_a_topic_that_redis_no_longer_lists_declares_nothing(
    topic: Topic, second: httpx2.AsyncClient, store: Store, amqp: Amqp
) -> None:
    await topic.send()
    await topic.ack(await topic.pull_one())
    await store.command("SREM", "delay/topics", topic.name)
    async with amqp.connection.channel() as channel:
        await channel.queue_delete(topic.dead_queue)
    assert await topic.through(second).pull(wait=0) == []
    assert await amqp.count(topic.dead_queue) is None


async def test_poll_of_a_topic_that_is_removed_makes_no_queue(
    topic: Topic, second: httpx2.AsyncClient, amqp: Amqp
) -> None:
    poll = asyncio.create_task(topic.through(second).pull(wait="2s"))
    await amqp.until_consumers(topic.ready_queue, 1)
    await topic.call("DELETE")
    assert await poll == []
    assert await amqp.count(topic.ready_queue) is None


async def until_asked(topic: Topic) -> None:
    """Waits until the bridge has looked for the topic: a second pull, which begins later, has its answer."""
    await topic.pull(wait=0)
    await pause()
