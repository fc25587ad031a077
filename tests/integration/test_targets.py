"""Tests messages that go to an exchange of another application when they are due, and what becomes of unroutable
ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.amqp import Amqp, header
from tests.integration.dead_letters import dead_ids, dead_letters, until_dead
from tests.integration.targets import opened
from tests.integration.topic import Topic


async def publish(amqp: Amqp, topic: Topic, message_id: str, exchange: str, *, delay: str = "0.0.0.0.0.0.2") -> None:
    headers: Any = {"x-delay-exchange": exchange, "x-delay-routing-key": "eu.new", "tenant": "t-7"}
    await amqp.publish("delay", f"{delay}.{topic.name}", b'{"order":1}', headers, message_id=message_id, priority=3)


async def test_due_message_goes_to_its_target_and_ends(topic: Topic, amqp: Amqp) -> None:
    async with opened(amqp) as shop:
        await publish(amqp, topic, "m-1", shop.name)
        message = await amqp.take(shop.queue.name)

    assert (message.body, message.message_id, message.routing_key) == (b'{"order":1}', "m-1", "eu.new")
    assert (header(message, "tenant"), header(message, "x-delay-id"), message.priority) == ("t-7", "m-1", 3)
    assert "x-delay-exchange" not in message.headers
    ended = await topic.until_state("m-1", "acked")
    assert (ended["attempts"], ended["reason"]) == (0, None)
    assert await topic.pull(wait=0) == []


async def test_unbound_target_keeps_the_message_until_it_is_replayed(topic: Topic, amqp: Amqp) -> None:
    async with opened(amqp, bound=False) as shop:
        await publish(amqp, topic, "m-1", shop.name)
        await until_dead(topic, "m-1")
        (letter,) = await dead_letters(topic)
        assert letter["reason"] == "RabbitMQ returned the message, no queue takes it: NO_ROUTE"
        assert await amqp.count(topic.dead_queue) is None

        await shop.bind()
        await topic.call("POST", "/dead/m-1/replay")
        message = await amqp.take(shop.queue.name)

    assert (message.body, message.message_id) == (b'{"order":1}', "m-1")
    assert await dead_ids(topic) == []
    await topic.until_state("m-1", "acked")


async def test_missing_exchange_concerns_no_other_message(topic: Topic, amqp: Amqp) -> None:
    async with opened(amqp) as shop:
        for at in range(20):
            await publish(amqp, topic, f"lost-{at}", f"{shop.name}-gone")
            await publish(amqp, topic, f"sent-{at}", shop.name)
        sent = {(await amqp.take(shop.queue.name)).message_id for _ in range(20)}

    assert sent == {f"sent-{at}" for at in range(20)}
    for at in range(20):
        dead = await topic.until_state(f"lost-{at}", "dead")
        assert f"no exchange '{shop.name}-gone'" in dead["reason"]


async def test_letters_of_a_target_are_replayed_and_dropped_as_others(topic: Topic, amqp: Amqp) -> None:
    other = topic.beside("other")
    await other.put_policy()
    async with opened(amqp, bound=False) as shop:
        for message_id in ("m-1", "m-2", "m-3"):
            await publish(amqp, topic, message_id, shop.name)
            await publish(amqp, other, message_id, shop.name)
        for message_id in ("m-1", "m-2", "m-3"):
            await until_dead(topic, message_id)
            await until_dead(other, message_id)

        await topic.call("DELETE", "/dead/m-2")
        await shop.bind()
        assert await topic.call("POST", "/dead/replay", {"max": 10}) == {"replayed": 2}
        assert {(await amqp.take(shop.queue.name)).message_id for _ in range(2)} == {"m-1", "m-3"}
        assert await other.call("DELETE", "/dead?max=1") == {"dropped": 1}
        assert len(await dead_ids(other)) == 2


async def test_removed_topic_leaves_no_letter_behind(topic: Topic, amqp: Amqp) -> None:
    async with opened(amqp, bound=False) as shop:
        await publish(amqp, topic, "m-1", shop.name)
        await until_dead(topic, "m-1")
        await topic.call("DELETE", expect=409)
        await topic.call("DELETE", "?force=true")

        async with amqp.consume("delay.unroutable", prefetch=1_000) as arrivals:
            left = await amqp.count("delay.unroutable") or 0
            held = [await arrivals.get() for _ in range(arrivals.qsize() + left)]
        assert topic.name not in [header(message, "x-delay-topic") for message in held]


@pytest.mark.parametrize("exchange", ["", "delay", "delay.checkpoint", "delay.in", "ready.returned"])
async def test_exchange_of_the_bridge_is_no_target(topic: Topic, amqp: Amqp, exchange: str) -> None:
    await publish(amqp, topic, "m-1", exchange)
    await until_dead(topic, "m-1")
    (letter,) = await dead_letters(topic)
    assert f"{exchange!r} can't be a target" in letter["reason"]
