"""Tests pulling over HTTP: what wakes a long poll, the order of topics, and the end of a poll.

A poll that nothing wakes lasts a minute and so exceeds the time limit of its test.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import httpx2
import pytest
import pytest_asyncio

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.forked_bridge import PATIENT, ForkedBridge
from tests.integration.amqp import Amqp
from tests.integration.topic import Json, Topic
from tests.waiting import pause

OUTLIVES_A_KILL_AFTER_S = 1.2  # as measured: docs/profiles.md

Polling = Callable[[Topic], Awaitable[asyncio.Task[Json]]]


@pytest_asyncio.fixture(scope="module")
async def second(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a second bridge process on the same servers. It reads too few messages ahead to lead any through the
    checkpoint into a new queue."""
    settings = {
        "BRIDGE_AMQP_URL": rabbit.amqp_url,
        "BRIDGE_REDIS_URL": redis_node.url,
        "BRIDGE_CHECKPOINT_PREFETCH": "7",
        **PATIENT,
    }
    process = ForkedBridge(local_dir / "second" / "bridge.log", free_ports(1)[0], settings)
    await asyncio.to_thread(process.start)
    try:
        async with httpx2.AsyncClient(base_url=process.url, timeout=90) as client:
            yield client
    finally:
        await asyncio.to_thread(process.stop)


@pytest.fixture
def polling(amqp: Amqp) -> Polling:
    """Starts a long poll for one message. Returns once the broker has its consumer."""

    async def poll(topic: Topic) -> asyncio.Task[Json]:
        task = asyncio.create_task(topic.pull_one())
        await amqp.until_consumers(topic.ready_queue, 1)
        return task

    return poll


async def test_poll_of_an_empty_topic_ends_empty(topic: Topic) -> None:
    assert await topic.pull(wait=0) == []
    assert await topic.pull(wait=50) == []


async def test_poll_wakes_when_a_message_is_due(topic: Topic, polling: Polling) -> None:
    poll = await polling(topic)
    sent = await topic.send(delay=300)
    assert (await poll)["id"] == sent["id"]


async def test_poll_wakes_when_a_message_is_sent_without_delay(topic: Topic, polling: Polling) -> None:
    poll = await polling(topic)
    sent = await topic.send()
    assert (await poll)["id"] == sent["id"]


async def test_poll_wakes_when_a_message_is_moved_to_now(topic: Topic, polling: Polling) -> None:
    sent = await topic.send(delay="1h")
    poll = await polling(topic)
    await topic.move(sent["id"], delay=0)
    assert (await poll)["id"] == sent["id"]


async def test_poll_wakes_when_a_message_is_nacked(topic: Topic, polling: Polling) -> None:
    sent = await topic.send()
    first = await topic.pull_one()
    poll = await polling(topic)
    await topic.nack(first)
    again = await poll
    assert (again["id"], again["attempts"]) == (sent["id"], 2)


async def test_poll_wakes_when_a_lease_ends(topic: Topic, polling: Polling) -> None:
    sent = await topic.send()
    await topic.pull_one(lease="2s")
    poll = await polling(topic)
    again = await poll
    assert (again["id"], again["attempts"]) == (sent["id"], 2)


async def test_poll_wakes_when_a_dead_letter_is_replayed(topic: Topic, polling: Polling) -> None:
    await topic.send(id="m-1", max_retry=0)
    assert (await topic.nack(await topic.pull_one()))["state"] == "dead"
    poll = await polling(topic)
    await topic.call("POST", "/dead/m-1/replay")
    again = await poll
    assert (again["id"], again["attempts"]) == ("m-1", 1)


async def test_poll_wakes_by_calls_to_another_process(
    topic: Topic, second: httpx2.AsyncClient, polling: Polling
) -> None:
    poll = await polling(topic)
    sent = await topic.through(second).send(delay=200)
    first = await poll
    assert first["id"] == sent["id"]
    poll = await polling(topic)
    await topic.through(second).nack(first)
    assert (await poll)["attempts"] == 2


async def test_message_leased_at_one_process_is_settled_at_another(topic: Topic, second: httpx2.AsyncClient) -> None:
    other = topic.through(second)
    await topic.send(id="m-1")
    leased = await other.pull_one(lease="10s")
    await topic.extend(leased, "30s")
    assert (await topic.ack(leased))["state"] == "acked"
    assert await other.state("m-1") == "acked"
    await topic.send(id="marker")
    assert await other.drain("marker") == []


async def test_immediate_send_past_the_checkpoint_waits_until_the_new_queue_would_survive_a_kill(
    client: httpx2.AsyncClient, second: httpx2.AsyncClient
) -> None:
    for declaring in (client, second):
        new = Topic(second, f"new-{uuid4().hex[:12]}")
        began_s = monotonic()
        await new.through(declaring).put_policy()
        await new.send()
        assert monotonic() - began_s >= OUTLIVES_A_KILL_AFTER_S


async def test_immediate_send_through_the_checkpoint_waits_for_no_new_queue(client: httpx2.AsyncClient) -> None:
    new = Topic(client, f"new-{uuid4().hex[:12]}")
    await new.put_policy()  # declares its queues
    began_s = monotonic()
    poll = asyncio.create_task(new.pull_one())
    sent = await new.send()
    assert (await poll)["id"] == sent["id"]
    assert monotonic() - began_s < OUTLIVES_A_KILL_AFTER_S
    await new.send_many({"id": "m-1", "body": 1}, {"id": "m-2", "body": 2})
    assert await new.pull_ids(2) == ["m-1", "m-2"]


async def test_two_processes_deliver_each_message_once(topic: Topic, second: httpx2.AsyncClient) -> None:
    ids = [f"m-{number}" for number in range(60)]
    await topic.send_many(*({"id": one, "body": 1, "delay": 300} for one in ids))
    halves = await asyncio.gather(
        topic.pull_ids(20, max=5), topic.through(second).pull_ids(20, max=5), return_exceptions=False
    )
    rest = await topic.pull_ids(len(ids) - sum(map(len, halves)), max=20)
    assert sorted([*halves[0], *halves[1], *rest]) == sorted(ids)


async def pull_by_priority(topics: list[Topic], **fields: Any) -> list[str]:
    body = {"topics": [topic.name for topic in topics], "wait": "30s", **fields}
    answer = await topics[0].client.post("/v1/pull", json=body)
    assert answer.status_code == 200, answer.text
    return [message["id"] for message in answer.json()["messages"]]


async def until_ready(amqp: Amqp, topic: Topic, count: int) -> None:
    """Waits until the messages are in the ready queue. A new topic's first ones may come a moment after the send."""
    while await amqp.count(topic.ready_queue) != count:
        await pause()


async def test_topic_listed_first_is_served_first(topic: Topic, amqp: Amqp) -> None:
    urgent, normal, idle = topic.beside("urgent"), topic.beside("normal"), topic.beside("idle")
    await normal.send_many(*({"id": f"normal-{number}", "body": 1} for number in range(3)))
    await urgent.send_many(*({"id": f"urgent-{number}", "body": 1} for number in range(2)))
    await until_ready(amqp, normal, 3)
    await until_ready(amqp, urgent, 2)
    topics = [idle, urgent, normal]
    assert await pull_by_priority(topics) == ["urgent-0"]
    assert sorted(await pull_by_priority(topics, max=3)) == ["normal-0", "normal-1", "urgent-1"]
    await urgent.send(id="urgent-2")
    await until_ready(amqp, urgent, 1)
    assert await pull_by_priority(topics, max=1) == ["urgent-2"]
    assert await pull_by_priority(topics, max=10) == ["normal-2"]


async def test_poll_of_several_topics_wakes_by_any_of_them(topic: Topic, amqp: Amqp) -> None:
    topics = [topic.beside(name) for name in ("urgent", "normal")]
    poll = asyncio.create_task(pull_by_priority(topics, wait="60s"))
    await topics[1].send(id="m-1", delay=300)
    assert await poll == ["m-1"]


async def test_pull_returns_at_most_max_messages(topic: Topic) -> None:
    await topic.send_many(*({"body": number} for number in range(7)))
    first = await topic.pull(max=5)
    assert len(first) == 5
    assert len(await topic.pull(max=5)) == 2
    assert await topic.pull(max=5, wait=0) == []


async def test_client_that_leaves_a_long_poll_costs_no_attempt(topic: Topic, amqp: Amqp, polling: Polling) -> None:
    poll = await polling(topic)
    poll.cancel()
    with suppress(asyncio.CancelledError):
        await poll
    await amqp.until_consumers(topic.ready_queue, 0)
    await topic.send(id="looked at")
    await topic.send(id="pulled")
    copy = await amqp.get(topic.ready_queue)
    assert copy is not None
    assert copy.message_id == "looked at"
    assert copy.headers.get("x-delivery-count", 0) == 0
    pulled = await topic.pull_one()
    assert (pulled["id"], pulled["attempts"]) == ("pulled", 1)


async def test_clients_that_leave_as_messages_become_ready_lose_none(topic: Topic) -> None:
    """If a client leaves while the bridge hands it a message, the message stays leased. It returns when the lease
    ends."""
    ids = [f"m-{number}" for number in range(40)]
    await topic.send_many(
        *({"id": one, "body": 1, "delay": 400 + 15 * at, "max_retry": 100} for at, one in enumerate(ids))
    )

    async def come_and_go() -> None:
        body = {"wait": "10s", "lease": "1s", "max": 2}
        for patience_s in (0.21, 0.13, 0.08, 0.17, 0.05, 0.11, 0.06, 0.19):
            with suppress(httpx2.TimeoutException):
                await topic.client.post(f"/v1/topics/{topic.name}/pull", json=body, timeout=patience_s)

    await asyncio.gather(*(come_and_go() for _ in range(4)))
    seen: set[str] = set()
    while seen != set(ids):
        seen.update(await topic.pull_ids(1, max=20))
