"""Tests that a running bridge restores any object of the plan that an operator deletes or unbinds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from aiormq.exceptions import DeliveryError

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.service.dead.queueless_dead_letters import MOST
from tests.integration.amqp import Amqp
from tests.integration.dead_letters import make_dead
from tests.integration.own import Own, own_bridge
from tests.integration.topic import Json, Topic
from tests.pika import pika
from tests.waiting import pause
from topology import plan
from topology.channels import look
from topology.names import Names
from topology.plan import Binding, Exchange, Queue

NAMES = Names()
CORE = plan.core(NAMES)
LISTING_PAUSE_S = 0.2  # the management API lists hundreds of bindings for each look
SLOTS = plan.merged(plan.slot(NAMES, hand, value) for hand, value in (("seconds", 1), ("tenths", 4)))
"""The slots of a delay of 1.5 s, which aims a tenth of a second short."""


@pytest_asyncio.fixture(scope="module")
async def own(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Own]:
    """A private bridge that each second verifies its objects and audits messages two seconds overdue."""
    settings = {"BRIDGE_VERIFY_EVERY": "1s", "BRIDGE_AUDIT_EVERY": "1s", "BRIDGE_AUDIT_GRACE": "2s"}
    async with own_bridge(rabbit, redis_node.url, local_dir, **settings) as own:
        # After this the queues of the topic are declared and persisted.
        await own.topic.send(id="first")
        await own.topic.ack(await own.topic.pull_one())
        yield own


@pytest_asyncio.fixture
async def topic(own: Own) -> Topic:
    return own.topic


def objects_of(topic: str) -> list[Queue | Binding]:
    of_topic = plan.topic(NAMES, topic, direct=True)
    return [*of_topic.queues, *of_topic.bindings]


async def exists(amqp: Amqp, item: Exchange | Queue) -> bool:
    return await look(pika(amqp.connection), item) is not None


async def bound(rabbit: RabbitNode, own: Own, binding: Binding) -> bool:
    async with httpx2.AsyncClient(base_url=f"{rabbit.management_url}/api/") as management:
        answer = await management.get(f"bindings/{own.vhost}")
    return any(
        (one["source"], one["destination"], one["destination_type"], one["routing_key"])
        == (binding.source, binding.destination, binding.destination_type, binding.key)
        for one in answer.json()
    )


async def delete(amqp: Amqp, item: Item) -> None:
    async with amqp.connection.channel() as channel:
        underlay = await channel.get_underlay_channel()
        match item:
            case Exchange():
                await underlay.exchange_delete(item.name)
            case Queue():
                await underlay.queue_delete(item.name)
            case Binding(destination_type="queue"):
                await underlay.queue_unbind(item.destination, item.source, item.key)
            case Binding():
                await underlay.exchange_unbind(item.destination, item.source, item.key)


async def insist(topic: Topic, method: str, path: str, body: Json) -> Json:
    """Calls until it succeeds. The call that finds an exchange missing is refused and has it declared again."""
    while True:
        answer = await topic.client.request(method, f"/v1/topics/{topic.name}/messages{path}", json=body)
        if answer.status_code != 503:
            assert answer.status_code in (200, 201), answer.text
            found: Json = answer.json()
            return found
        await pause()


def label(item: Item) -> str:
    if isinstance(item, Binding):
        return f"{item.source}--{item.key}--{item.destination}"
    return f"{type(item).__name__.lower()}-{item.name}"


Item = Exchange | Queue | Binding

OBJECTS: list[Item] = [*CORE.exchanges, *CORE.queues, *CORE.bindings, *SLOTS.queues, *SLOTS.bindings]
PASSED = {"delay.checkpoint", "delay.seconds", "delay.tenths", "delay.due", "delay.ready"}
"""The exchanges by which the messages of the test go."""


def is_passed(item: Item) -> bool:
    """Whether messages of the test go through the object."""
    if isinstance(item, Binding):
        return item in SLOTS.bindings or (item.source, item.destination) == (NAMES.checkpoint, NAMES.checkpoint)
    return item in SLOTS.queues or item.name in PASSED


TOGETHER: dict[str, list[Item]] = {label(item): [item] for item in OBJECTS if is_passed(item)} | {
    "other bindings": [item for item in OBJECTS if isinstance(item, Binding) and not is_passed(item)],
    "others": [item for item in OBJECTS if not (isinstance(item, Binding) or is_passed(item))],
}
"""What is deleted at one time. One by one, what the messages pass: each may hold them up in its own way."""


@pytest.mark.parametrize("name", TOGETHER)
async def test_waiting_messages_are_delivered_and_the_deleted_object_is_restored(
    rabbit: RabbitNode, own: Own, topic: Topic, name: str
) -> None:
    at = list(TOGETHER).index(name)
    await insist(topic, "POST", "", {"id": f"m-{at}-far", "body": 1, "delay": "2h"})
    await insist(topic, "POST", "", {"id": f"m-{at}-near", "body": 1, "delay": "1.5s"})
    for item in TOGETHER[name]:
        await delete(own.amqp, item)
    await insist(topic, "POST", "", {"id": f"m-{at}-after", "body": 1, "delay": "1.5s"})
    await insist(topic, "PATCH", f"/m-{at}-far", {"delay": "1.5s"})
    wanted = {f"m-{at}-{which}" for which in ("far", "near", "after")}
    assert set(await topic.pull_ids(3, max=10)) == wanted
    for item in TOGETHER[name]:
        while not (await bound(rabbit, own, item) if isinstance(item, Binding) else await exists(own.amqp, item)):
            await pause(LISTING_PAUSE_S)


async def test_amqp_acks_are_recorded_after_their_queue_was_deleted(rabbit: RabbitNode, own: Own, topic: Topic) -> None:
    await topic.send(id="acked")
    message = await own.amqp.take(topic.ready_queue)
    (queue,) = (queue for queue in CORE.queues if queue.name == NAMES.acks)
    (binding,) = (binding for binding in CORE.bindings if binding.destination == NAMES.acks)
    await delete(own.amqp, queue)
    while not await bound(rabbit, own, binding):
        await pause(LISTING_PAUSE_S)
    await own.amqp.publish(NAMES.acks, topic.name, b"", message_id=message.message_id)
    await topic.until_state("acked", "acked")


async def test_deleted_refused_queue_is_declared_again_for_the_next_message(own: Own, topic: Topic) -> None:
    await own.amqp.delete_queue(NAMES.refused)
    await own.amqp.publish(NAMES.entry, "no key", b"strange", message_id="strange")
    await insist(topic, "POST", "", {"id": "behind", "body": 1})
    assert await topic.pull_ids(1) == ["behind"]
    while not await own.amqp.count(NAMES.refused):
        await pause()
    assert (await own.amqp.take(NAMES.refused)).message_id == "strange"


async def test_binding_of_an_earlier_version_is_removed(rabbit: RabbitNode, own: Own, topic: Topic) -> None:
    """It would lead a wrong key into a slot of days. A bridge of an earlier version binds it every minute."""
    for former in CORE.former:
        async with own.amqp.connection.channel() as channel:
            underlay = await channel.get_underlay_channel()
            await underlay.exchange_bind(former.destination, former.source, former.key)
        while await bound(rabbit, own, former):
            await pause(LISTING_PAUSE_S)
    await own.amqp.publish(NAMES.entry, "5.orders", b"short", message_id="short")
    assert (await own.amqp.put_aside("'5.orders' is not a key of the wheel")).message_id == "short"


@pytest.mark.parametrize("place", range(len(objects_of("t"))), ids=[label(item) for item in objects_of("t")])
async def test_queues_and_bindings_of_a_topic_are_restored_without_a_call(own: Own, topic: Topic, place: int) -> None:
    direct = topic.beside("direct")
    await direct.put_policy(release="direct")
    item = objects_of(direct.name)[place]
    await delete(own.amqp, item)
    if isinstance(item, Queue):
        while not await exists(own.amqp, item):
            await pause()
    else:
        key = direct.name if item.source == NAMES.ready_exchange else f"0.0.0.0.0.0.0.{direct.name}"
        while not await routed(own.amqp, item.source, key, direct.ready_queue):
            await pause()


async def test_unroutable_dead_letters_are_delivered_once_their_exchange_is_back(own: Own, topic: Topic) -> None:
    """A slot has at most 32 unconfirmed dead letters. Messages behind unroutable ones must not stay stuck."""
    ids = [f"held-{number}" for number in range(40)]
    await topic.send_many(*({"id": one, "body": 1, "delay": "1.5s"} for one in ids))
    for item in (CORE.exchanges[0], *(one for one in CORE.exchanges if one.name == NAMES.due)):
        await delete(own.amqp, item)
    assert sorted(await topic.pull_ids(40, max=100)) == sorted(ids)


async def test_letters_of_a_deleted_queue_are_a_finding_until_they_have_one_or_are_gone(own: Own, topic: Topic) -> None:
    # Redis also lists two messages that need no dead queue: a time to live has passed, and a target took nothing.
    ended = topic.beside("ended")
    await ended.send(id="late", ttl="8s")
    await ended.pull_one(lease="1s")
    headers: Any = {"x-delay-exchange": "", "x-delay-routing-key": "nowhere"}
    await own.amqp.publish("delay", f"0.0.0.0.0.0.2.{ended.name}", b"1", headers, message_id="targeted")
    queueless = [topic.beside(f"queueless-{number:02}") for number in range(MOST + 1)]
    await asyncio.gather(*(make_dead(one, "lost") for one in queueless))
    await asyncio.gather(*(own.amqp.delete_queue(one.dead_queue) for one in queueless))
    for name in ("late", "targeted"):
        await ended.until_state(name, "dead")

    while len(found := await findings_of_letters(own)) < MOST:
        await pause()
    assert [(finding["severity"], finding["says"]) for finding in found] == [
        (
            "warning",
            f"the queue {one.dead_queue} of the topic {one.name} is missing, and Redis lists dead letters of it: AMQP "
            "consumers of the queue do not get them",
        )
        for one in queueless[:MOST]
    ]
    first, *others = queueless
    assert "Replay or drop them" in found[0]["remedy"]
    assert f"`delaybridge topology --topic {first.name} apply`" in found[0]["remedy"]

    assert await asyncio.gather(*(one.call("DELETE", "/dead") for one in others)) == [{"dropped": 1}] * len(others)
    await make_dead(first, "next")
    while await findings_of_letters(own):
        await pause()
    assert [await own.amqp.count(one.dead_queue) for one in (ended, others[0])] == [None, None]


async def findings_of_letters(own: Own) -> list[Json]:
    answer = await own.topic.client.get("/health/ready")
    return [one for one in answer.json()["findings"] if "Redis lists dead letters" in one["says"]]


async def routed(amqp: Amqp, exchange: str, key: str, queue: str) -> bool:
    """Whether the broker routes such a message to the queue without the bridge, which would add `x-delay-topic`."""
    try:
        await amqp.publish(exchange, key)
    except DeliveryError:
        return False
    return "x-delay-topic" not in (await amqp.take(queue)).headers
