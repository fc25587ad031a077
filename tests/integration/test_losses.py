"""Tests that messages are delivered although queues, records or all of Redis were lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from bridge.local.rabbitmq import RabbitNode
from bridge.store.client import Store
from tests.integration.amqp import Amqp
from tests.integration.own import Own, own_bridge
from tests.integration.topic import Json, Topic
from tests.matrix.servers import Servers
from tests.waiting import pause


@dataclass(frozen=True, slots=True)
class Forgetful:
    """A bridge whose Redis no other module uses. Each test has a topic to itself, and may empty this Redis."""

    redis: Redis
    amqp: Amqp
    topic: Topic


@pytest_asyncio.fixture(scope="module")
async def bridge_and_redis(rabbit: RabbitNode, servers: Servers, local_dir: Path) -> AsyncIterator[tuple[Own, Redis]]:
    with servers.redis_node(local_dir / "redis-forgetful") as node:
        async with own_bridge(rabbit, node.url, local_dir) as own, Redis.from_url(node.url) as redis:
            yield own, redis


@pytest.fixture
def forgetful(bridge_and_redis: tuple[Own, Redis]) -> Forgetful:
    own, redis = bridge_and_redis
    return Forgetful(redis, own.amqp, own.with_fresh_topic().topic)


async def test_deleted_ready_queue_is_declared_again_when_messages_are_due(topic: Topic, amqp: Amqp) -> None:
    await topic.send(id="waiting", delay="1.5s")
    await amqp.delete_queue(topic.ready_queue)
    # RabbitMQ 4.0 closes the connection of a client that consumes from a queue still being declared.
    while not await amqp.count(topic.ready_queue):
        await pause()
    message = await amqp.take(topic.ready_queue)
    assert message.message_id == "waiting"


async def test_topic_whose_queues_were_deleted_can_be_pulled(topic: Topic, amqp: Amqp) -> None:
    await topic.send(id="waiting", delay="4s")
    for queue in (topic.ready_queue, topic.dead_queue):
        await amqp.delete_queue(queue)
    assert await topic.pull(wait=0) == []
    assert (await topic.pull_one())["id"] == "waiting"
    assert await topic.call("POST", "/dead/replay") == {"replayed": 0}


async def test_long_poll_survives_the_deletion_of_its_queue(topic: Topic, amqp: Amqp) -> None:
    await topic.send(id="waiting", delay="1.5s")
    poll = asyncio.create_task(topic.pull_one())
    await amqp.until_consumers(topic.ready_queue, 1)
    await amqp.delete_queue(topic.ready_queue)
    assert (await poll)["id"] == "waiting"


async def test_dead_letter_of_a_deleted_queue_is_replayed_from_its_record(topic: Topic, amqp: Amqp) -> None:
    await topic.send({"order": 1}, id="m-1", max_retry=0)
    await topic.nack(await topic.pull_one())
    await amqp.delete_queue(topic.dead_queue)
    await topic.call("POST", "/dead/m-1/replay")
    again = await topic.pull_one()
    assert (again["id"], again["body"], again["attempts"]) == ("m-1", {"order": 1}, 1)


async def test_redis_that_lost_all_data_loses_no_message(forgetful: Forgetful) -> None:
    topic, redis = forgetful.topic, forgetful.redis
    await topic.send({"order": 0}, id="ready")
    await topic.send({"order": 1}, id="leased")
    while (leased := await topic.pull_one(lease="3s"))["id"] != "leased":
        await topic.nack(leased)
    sent = await topic.send({"order": 2}, id="waiting", delay="2.5s", headers={"tenant": "t-7"}, max_retry=5)
    await redis.flushall()
    await topic.look("waiting", expect=404)
    found: dict[str, Json] = {}
    while len(found) < 3:
        message = await topic.pull_one(lease="1h")  # a slow machine may need a minute for this test
        found[message["id"]] = message
    assert {one: found[one]["body"]["order"] for one in found} == {"ready": 0, "leased": 1, "waiting": 2}
    waiting = found["waiting"]
    assert (waiting["attempts"], waiting["max_retry"], waiting["headers"]) == (1, 5, {"tenant": "t-7"})
    # The `webhook-id` of a callback depends on it.
    assert waiting["created_at"] == sent["created_at"]
    assert (await topic.ack(waiting))["state"] == "acked"
    # A bridge registers a topic in Redis again after two seconds.
    while (await topic.client.get(f"/v1/topics/{topic.name}")).status_code == 404:
        assert await topic.pull(wait=0) == []
    assert (await topic.nack(found["leased"]))["state"] == "waiting"
    assert (await topic.info())["counts"]["leased"] == 1


@pytest.mark.timeout(120)
async def test_ids_that_are_used_again_after_redis_was_emptied_lose_no_message(forgetful: Forgetful) -> None:
    topic, amqp, redis = forgetful.topic, forgetful.amqp, forgetful.redis

    async def submit(word: str, delay_ms: int) -> None:
        headers: dict[str, Any] = {"x-delay": delay_ms}
        body = f'"{word} submitted"'.encode()
        properties = {"message_id": "submitted", "content_type": "application/json"}
        await amqp.publish("delay.in", topic.name, body, headers, **properties)
        await topic.until_found("submitted")

    # A message in each place.
    await topic.send("first dead", id="dead", max_retry=0)
    await topic.nack(await topic.pull_one())
    await topic.until_state("dead", "dead")
    await topic.send("first leased", id="leased")
    assert (await topic.pull_one(lease="5s"))["id"] == "leased"
    await topic.send("first waiting", id="waiting", delay="4s")
    await topic.send("first moved", id="moved", delay="1h")
    await topic.move("moved", delay="4s")
    await submit("first", 4_000)
    await topic.send("first ready", id="ready")
    await redis.flushall()
    for name in ("dead", "leased", "waiting", "ready"):
        await topic.send(f"second {name}", id=name, delay="1s")
    await submit("second", 1_000)
    # This message has ended before the copy of the former one comes.
    await topic.send("second moved", id="moved", delay="1h")
    await topic.delete("moved")
    assert await topic.call("POST", "/dead/replay") == {"replayed": 1}

    wanted = {f"{word} {name}" for word in ("first", "second") for name in ("dead", "leased", "waiting", "ready")}
    wanted |= {"first submitted", "second submitted", "first moved"}
    found: dict[str, Json] = {}
    while found.keys() < wanted:
        message = await topic.pull_one(lease="1h")
        await topic.ack(message)
        found[message["body"]] = message
    assert found.keys() == wanted
    former = found["first waiting"]
    assert (former["id"].partition("~born")[0], former["headers"]) == (
        "waiting",
        {"x-delay-message-id": "waiting"},
    )
    assert await topic.state("moved") == "deleted"


async def test_topic_with_an_evicted_record_can_be_removed(topic: Topic, store: Store) -> None:
    await topic.send(id="evicted", delay="1h")
    await topic.send(id="kept", delay="1h")
    assert await store.command("DEL", f"delay/{{{topic.name}}}/m/evicted") == 1
    await topic.call("DELETE", "?force=true")
    assert await topic.state("kept") == "deleted"
    await topic.put_policy()
    assert (await topic.info())["counts"]["waiting"] == 0
