"""Tests that a process that dies between two steps of the checkpoint leaves all its messages to the next process."""

from __future__ import annotations

import asyncio

import aio_pika
import pytest

from bridge.broker.publications import Route
from bridge.model.message import CopyKind, State
from tests.inside.crash import (
    DyingAt,
    after,
    before,
    comes_once,
    draft,
    dying,
    of_kind,
    on_way,
    pull,
    restarted,
    send,
)
from tests.inside.stage import Stage


@pytest.mark.parametrize(
    ("name", "dying_at"), [("asked", before("fire")), ("fired", after("fire")), ("released", on_way(Route.READY))]
)
async def test_another_checkpoint_releases_the_message_after_a_crash(
    stage: Stage, name: str, dying_at: DyingAt
) -> None:
    topic = f"fire-{name}"
    async with dying(stage) as (mortal, service):
        # A send to a new topic is answered when its queues are old enough, and it is to be due after that.
        due_ms = await send(service, draft(topic, delay_ms=3_500))
        dying_at(mortal)
        await mortal.die()
    async with restarted(stage) as service:
        await comes_once(service, topic, not_before_ms=due_ms)


@pytest.mark.parametrize(
    ("name", "dying_at"), [("asked", before("fire")), ("fired", after("fire")), ("released", on_way(Route.READY))]
)
async def test_another_checkpoint_releases_the_first_message_of_a_topic_after_a_crash(
    stage: Stage, name: str, dying_at: DyingAt
) -> None:
    topic = f"first-{name}"
    async with dying(stage) as (mortal, service):
        dying_at(mortal)
        await send(service, draft(topic))
        await mortal.die()
    async with restarted(stage) as service:
        await comes_once(service, topic, not_before_ms=0)


@pytest.mark.parametrize(
    ("name", "dying_at"), [("decided", after("fire")), ("published", on_way(Route.DEAD)), ("buried", after("bury"))]
)
async def test_a_crash_while_retries_run_out_leaves_one_dead_letter_that_can_be_replayed(
    stage: Stage, name: str, dying_at: DyingAt
) -> None:
    topic = f"bury-{name}"
    async with dying(stage) as (mortal, service):
        await send(service, draft(topic, max_retry=0))
        await pull(service, topic, lease_ms=1_000)
        dying_at(mortal)
        await mortal.die()
    async with restarted(stage) as service:
        async with asyncio.timeout(30):
            while not (letters := (await service.dead.page(topic, limit=10, cursor=None)).items):
                assert await pull(service, topic, wait_ms=100) == []
        assert [(one.record.id, one.record.attempts) for one in letters] == [("it", 1)]
        replayed = await service.dead.replay(topic, "it")
        assert replayed.record.state is State.WAITING
        await comes_once(service, topic, not_before_ms=0, most_attempts=1)
        assert (await service.dead.page(topic, limit=10, cursor=None)).items == []


@pytest.mark.parametrize(("name", "dying_at"), [("published", of_kind(CopyKind.RETRY)), ("named", after("retry"))])
async def test_a_crash_after_a_rejection_over_amqp_redelivers_the_message(
    stage: Stage, name: str, dying_at: DyingAt
) -> None:
    topic = f"reject-{name}"
    async with dying(stage) as (mortal, service):
        await send(service, draft(topic))
        dying_at(mortal)
        await reject(stage, topic)
        await mortal.die()
    async with restarted(stage) as service:
        await comes_once(service, topic, not_before_ms=0)


async def reject(stage: Stage, topic: str) -> None:
    """Rejects one message as an AMQP consumer that can't handle it."""
    async with await aio_pika.connect(stage.amqp_url) as connection:
        channel = await connection.channel()
        queue = await channel.get_queue(f"ready.{topic}")
        arrived: asyncio.Future[aio_pika.abc.AbstractIncomingMessage] = asyncio.get_running_loop().create_future()

        async def received(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            arrived.set_result(message)

        await queue.consume(received)
        await (await asyncio.wait_for(arrived, 20)).reject(requeue=False)
