"""Tests an unpacked bundle of which some copies are not yet settled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aio_pika
import orjson
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue

from bridge.model.message import Copy, Envelope
from bridge.model.values import Draft
from bridge.service.service import Service
from tests.fault.api import now_ms
from tests.forked_bridge import PATIENCE
from tests.inside.crash import change
from tests.inside.running import fire_answered, running
from tests.inside.stage import Stage

PATIENCE_S = 30.0


async def test_stopping_bridge_finishes_the_held_copies_of_an_unpacked_bundle(stage: Stage) -> None:
    topic, ids = "unpacked-ended", ["m-0", "m-1", "m-2"]
    async with running(stage, **PATIENCE) as service, ready_queue(stage, service, topic) as (channel, ready):
        drafts = [Draft(topic=topic, id=one, envelope=Envelope(body=b"1"), delay_ms=3_000) for one in ids]
        (sent, *_) = await service.sending.send_many(drafts)
        assert not isinstance(sent, Exception)
        # This copy arrives in the bundle, and the checkpoint holds it a little longer.
        later_ms = sent.message.record.due_ms + 180
        await change(service, topic, "m-1", deliver_at_ms=later_ms)
        async with asyncio.timeout(PATIENCE_S):
            await fire_answered(service)
            await service.stop()
        assert now_ms() >= later_ms
        assert sorted([await take_id(ready) for _ in ids]) == ids
        checkpoint = await channel.declare_queue("delay.checkpoint", passive=True)
        assert checkpoint.declaration_result.message_count == 0


@pytest.mark.expects_log("loop.failed")
async def test_failure_of_one_copy_in_a_bundle_loses_none_and_repeats_none(stage: Stage) -> None:
    topic = "unpacked-failed"
    async with running(stage, **PATIENCE) as service, ready_queue(stage, service, topic) as (channel, ready):
        ways = service.context.broker.releases
        refuse, failed = ways.refuse, asyncio.Event()

        async def failing_once(message: Any, reason: str) -> None:
            if isinstance(message, Copy) and not failed.is_set():
                failed.set()
                raise RuntimeError("an injected fault")
            await refuse(message, reason)

        ways.refuse = failing_once  # type: ignore[method-assign]
        facts = [1, 7, 1, 3, now_ms(), 0, now_ms()]
        parts: list[Any] = [
            ["fine", *facts],
            ["poison", *facts, "text/plain", {}, {"reply_to": "x" * 300}],
            ["fine too", *facts],
        ]
        body = b"copies\n" + b"".join(b"%b\n%b\n" % (orjson.dumps([4, *part]), part[0][:4].encode()) for part in parts)
        headers: Any = {"x-delay-bundle": 3, "x-delay-due": now_ms()}
        exchange = await channel.get_exchange("delay")
        await exchange.publish(
            aio_pika.Message(body, headers=headers, delivery_mode=2), f"0.0.0.0.0.0.0.!plain-bundle.{topic}"
        )
        refused = await channel.get_queue("delay.refused")
        assert (await take(refused)).body == b"pois"
        assert failed.is_set()
        assert sorted([await take_id(ready) for _ in range(2)]) == ["fine", "fine too"]
        await service.stop()
        for queue in ("delay.checkpoint", ready.name):
            left = await channel.declare_queue(queue, passive=True)
            assert left.declaration_result.message_count == 0


@asynccontextmanager
async def ready_queue(
    stage: Stage, service: Service, topic: str
) -> AsyncIterator[tuple[AbstractChannel, AbstractQueue]]:
    """Declares the topic; yields a channel and its ready queue."""
    await service.context.broker.declared.ensure_topic(topic)
    async with await aio_pika.connect(stage.amqp_url) as connection:
        channel = await connection.channel()
        yield channel, await channel.get_queue(f"ready.{topic}")


async def take(queue: AbstractQueue) -> AbstractIncomingMessage:
    """The next message of the queue, acknowledged."""
    async with asyncio.timeout(PATIENCE_S), queue.iterator(no_ack=False) as messages:
        async for message in messages:
            await message.ack()
            return message
    raise AssertionError("the queue was closed")


async def take_id(queue: AbstractQueue) -> str:
    """The id of the next message of the queue, acknowledged."""
    return (await take(queue)).message_id or ""
