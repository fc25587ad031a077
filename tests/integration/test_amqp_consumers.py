"""Tests AMQP consumers of a ready queue: failures are retried and counted, and acks can be recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aio_pika.abc import AbstractIncomingMessage

from tests.integration.amqp import Amqp, header
from tests.integration.topic import Topic, due_ms

NowMs = Callable[[], Awaitable[int]]
Refuse = Callable[[AbstractIncomingMessage], Awaitable[None]]


async def reject(message: AbstractIncomingMessage) -> None:
    await message.reject(requeue=False)


async def nack(message: AbstractIncomingMessage) -> None:
    await message.nack(requeue=False)


@pytest.mark.parametrize("refuse", [reject, nack])
async def test_rejected_message_returns_after_the_back_off_and_ends_dead(
    topic: Topic, amqp: Amqp, store_now_ms: NowMs, refuse: Refuse
) -> None:
    await topic.put_policy(backoff=[400, 200], max_retry=2)
    await topic.send({"order": 1}, id="m-1", delay=100, headers={"tenant": "t-7"})
    async with amqp.consume(topic.ready_queue) as arrivals:
        message = await arrivals.get()
        for attempt, backoff_ms in ((1, 400), (2, 200)):
            assert header(message, "x-delay-attempt") == attempt
            refused_ms = await store_now_ms()
            await refuse(message)
            message = await arrivals.get()
            # The bridge reads its clock when the rejected message arrives, so this bound is exact.
            assert await store_now_ms() >= header(message, "x-delay-due") >= refused_ms + backoff_ms
        assert header(message, "x-delay-attempt") == 3
        assert (message.message_id, message.body) == ("m-1", b'{"order":1}')
        assert header(message, "tenant") == "t-7"
        assert "x-death" not in message.headers
        await refuse(message)
    dead = await topic.until_state("m-1", "dead")
    letter = await amqp.take(topic.dead_queue)
    assert (letter.message_id, letter.body) == ("m-1", b'{"order":1}')
    assert header(letter, "x-delay-reason") == "rejected"
    assert (dead["attempts"], dead["reason"]) == (3, "rejected")


async def test_rejected_message_is_shown_as_waiting_with_its_reason(topic: Topic, amqp: Amqp) -> None:
    await topic.put_policy(backoff=["1h"])
    await topic.send(id="m-1")
    async with amqp.consume(topic.ready_queue) as arrivals:
        await reject(await arrivals.get())
    waiting = await topic.until_state("m-1", "waiting")
    assert (waiting["attempts"], waiting["reason"]) == (1, "rejected")
    # Moved to now over HTTP, its next delivery is the second.
    await topic.move("m-1", delay=0)
    assert (await topic.pull_one())["attempts"] == 2


async def test_message_requeued_by_its_consumer_keeps_its_attempt(topic: Topic, amqp: Amqp) -> None:
    await topic.send(id="m-1")
    async with amqp.consume(topic.ready_queue) as arrivals:
        await (await arrivals.get()).nack(requeue=True)
        again = await arrivals.get()
        assert again.redelivered
        assert header(again, "x-delay-attempt") == 1
        await again.ack()


async def test_crashes_up_to_the_delivery_limit_count_as_one_failed_attempt(topic: Topic, amqp: Amqp) -> None:
    limit = 20  # BRIDGE_DELIVERY_LIMIT
    await topic.send(id="m-1")
    crashes = 0
    while True:
        async with amqp.consume(topic.ready_queue) as arrivals:
            message = await arrivals.get()
            if header(message, "x-delay-attempt") > 1:
                await message.ack()
                break
        crashes += 1
    assert crashes == limit + 1
    assert (message.message_id, header(message, "x-delay-attempt")) == ("m-1", 2)
    assert message.headers.get("x-delivery-count", 0) == 0
    assert (await topic.look("m-1"))["reason"] == "delivery_limit"


@pytest.mark.parametrize("exchange", ["delay.done", "delay.acks"])
async def test_published_ack_is_recorded(topic: Topic, amqp: Amqp, exchange: str) -> None:
    await topic.send(id="m-1", delay=100)
    message = await amqp.take(topic.ready_queue)
    assert (await topic.look("m-1"))["state"] == "ready"
    await amqp.publish(exchange, topic.name, b"", message_id=message.message_id)
    acked = await topic.until_state("m-1", "acked")
    assert due_ms({"due_at": acked["ended_at"]}) >= due_ms(acked)
    # The id is free again, so the ack has ended the message.
    assert (await topic.send("second", id="m-1"))["attempts"] == 0


async def test_malformed_ack_holds_up_no_other(topic: Topic, amqp: Amqp) -> None:
    await topic.send(id="m-1")
    await amqp.publish("delay.done", "no topic!", b"", message_id="m-1")
    await amqp.publish("delay.done", topic.name, b"")
    await amqp.publish("delay.done", topic.name, b"", message_id="unknown")
    await amqp.publish("delay.done", topic.name, b"", message_id="m-1")
    await topic.until_state("m-1", "acked")


async def test_amqp_consumer_can_ack_over_http(topic: Topic, amqp: Amqp) -> None:
    await topic.send(id="m-1")
    message = await amqp.take(topic.ready_queue)
    assert await topic.ack_many(ids=[message.message_id or ""]) == ["acked"]
    assert await topic.state("m-1") == "acked"


async def test_message_past_its_ttl_does_not_reach_amqp_consumers(topic: Topic, amqp: Amqp) -> None:
    await topic.send(id="m-1", delay=200, ttl=200)
    await topic.until_state("m-1", "expired")
    await topic.send(id="marker")
    assert (await amqp.take(topic.ready_queue)).message_id == "marker"


async def test_http_and_amqp_consumers_share_a_topic(topic: Topic, amqp: Amqp) -> None:
    ids = [f"m-{number}" for number in range(20)]
    await topic.send_many(*({"id": one, "body": 1, "delay": 200} for one in ids))

    async def consume(count: int) -> list[str]:
        async with amqp.consume(topic.ready_queue, prefetch=1) as arrivals:
            consumed: list[str] = []
            while len(consumed) < count:
                message = await arrivals.get()
                await message.ack()
                consumed.append(message.message_id or "")
            return consumed

    pulled, consumed = await asyncio.gather(topic.pull_ids(10), consume(10))
    assert sorted(pulled + consumed) == sorted(ids)
