"""A process that dies between any two steps loses nothing, brings nothing early, and brings nothing back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import aio_pika
import pytest

from bridge.broker.ways import Publication, Way
from bridge.message import State
from bridge.service.service import Service
from bridge.service.successors import MOVE_KIND, RETRY_KIND
from bridge.service.pulling import LEASE_KIND
from tests.fault.api import now_ms
from tests.fault.crash import Mortal, draft, pull, send
from tests.fault.stage import Stage

ABSENCE_MS = 1_500  # longer than any lease and delay of these tests has left
DyingAt = Callable[[Mortal], None]


def before(script: str) -> DyingAt:
    return lambda mortal: mortal.dies_before_script(script)


def after(script: str) -> DyingAt:
    return lambda mortal: mortal.dies_after_script(script)


def published(meant: Callable[[Publication], bool]) -> DyingAt:
    return lambda mortal: mortal.dies_after_publish(meant)


def of_kind(kind: str | None) -> DyingAt:
    return published(lambda one: one.way is Way.WHEEL and one.kind == kind)


def on_way(way: Way) -> DyingAt:
    return published(lambda one: one.way is way)


@asynccontextmanager
async def dying(stage: Stage) -> AsyncIterator[tuple[Mortal, Service]]:
    mortal = Mortal(stage)
    yield mortal, await mortal.start()


@asynccontextmanager
async def restarted(stage: Stage) -> AsyncIterator[Service]:
    """A new process on the same servers."""
    mortal = Mortal(stage)
    try:
        yield await mortal.start()
    finally:
        await mortal.service.stop()
        await mortal.end()


async def dies_in(mortal: Mortal, work: Coroutine[Any, Any, object]) -> None:
    """Runs the work until the process dies in it."""
    task = asyncio.create_task(work)
    await mortal.die()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def comes_once(service: Service, topic: str, *, not_before_ms: int, most_attempts: int = 4) -> None:
    """It is delivered, is acked, and does not come back."""
    (leased,) = await pull(service, topic)
    assert now_ms() >= not_before_ms
    assert leased.message.record.id == "it"
    assert leased.message.envelope is not None
    assert leased.message.envelope.body == b'"it"'
    assert leased.message.record.attempts <= most_attempts
    (result,) = await service.settling.ack_receipts(topic, [leased.receipt])
    assert result.verdict == "acked"
    assert await pull(service, topic, wait_ms=ABSENCE_MS) == []
    assert (await service.looking.get(topic, "it")).record.state is State.ACKED


@pytest.mark.parametrize(
    ("name", "dying_at"),
    [("claimed", after("schedule")), ("published", of_kind(None)), ("confirmed", after("confirm"))],
)
async def test_a_crash_in_a_send_leaves_one_message_once_it_is_sent_again(
    stage: Stage, name: str, dying_at: DyingAt
) -> None:
    topic, what = f"send-{name}", draft(f"send-{name}", delay_ms=400)
    not_before_ms = now_ms() + 400
    async with dying(stage) as (mortal, service):
        dying_at(mortal)
        await dies_in(mortal, service.sending.send(what))
    async with restarted(stage) as service:
        await send(service, what)
        await comes_once(service, topic, not_before_ms=not_before_ms)


@pytest.mark.parametrize(("name", "dying_at"), [("published", of_kind(LEASE_KIND)), ("leased", after("lease"))])
async def test_a_crash_in_a_pull_has_the_message_come_again(stage: Stage, name: str, dying_at: DyingAt) -> None:
    topic = f"pull-{name}"
    async with dying(stage) as (mortal, service):
        await send(service, draft(topic))
        dying_at(mortal)
        pulled_ms = now_ms()
        await dies_in(mortal, pull(service, topic, lease_ms=1_000))
    async with restarted(stage) as service:
        lease_ends_ms = pulled_ms + 1_000 if name == "leased" else 0
        await comes_once(service, topic, not_before_ms=lease_ends_ms)


@pytest.mark.parametrize(("name", "dying_at"), [("published", of_kind(RETRY_KIND)), ("named", after("nack"))])
async def test_a_crash_in_a_nack_has_the_message_come_again(stage: Stage, name: str, dying_at: DyingAt) -> None:
    topic = f"nack-{name}"
    async with dying(stage) as (mortal, service):
        await send(service, draft(topic))
        await pull(service, topic, lease_ms=1_500)
        dying_at(mortal)
        nacked_ms = now_ms()
        nack = service.settling.nack(topic, "it", receipt=None, delay_ms=300, reason=None)
        await dies_in(mortal, nack)
    async with restarted(stage) as service:
        await comes_once(service, topic, not_before_ms=nacked_ms + 300)


@pytest.mark.parametrize(("name", "dying_at"), [("published", of_kind(MOVE_KIND)), ("named", after("move"))])
async def test_a_crash_in_a_move_leaves_the_message_due_then_or_as_it_was(
    stage: Stage, name: str, dying_at: DyingAt
) -> None:
    topic = f"move-{name}"
    async with dying(stage) as (mortal, service):
        due_ms = await send(service, draft(topic, delay_ms=3_000))
        dying_at(mortal)
        moved_ms = now_ms()
        await dies_in(mortal, service.changing.move(topic, "it", delay_ms=500, deliver_at_ms=None))
    async with restarted(stage) as service:
        await comes_once(service, topic, not_before_ms=moved_ms + 500 if name == "named" else due_ms)


@pytest.mark.parametrize(
    ("name", "dying_at"), [("asked", before("fire")), ("fired", after("fire")), ("released", on_way(Way.READY))]
)
async def test_a_crash_of_the_checkpoint_has_the_message_released_by_another(
    stage: Stage, name: str, dying_at: DyingAt
) -> None:
    topic = f"fire-{name}"
    async with dying(stage) as (mortal, service):
        due_ms = await send(service, draft(topic, delay_ms=500))
        dying_at(mortal)
        await mortal.die()
    async with restarted(stage) as service:
        await comes_once(service, topic, not_before_ms=due_ms)


@pytest.mark.parametrize(
    ("name", "dying_at"), [("decided", after("fire")), ("published", on_way(Way.DEAD)), ("buried", after("bury"))]
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
        assert replayed.record.state is State.READY
        await comes_once(service, topic, not_before_ms=0, most_attempts=1)
        assert (await service.dead.page(topic, limit=10, cursor=None)).items == []


@pytest.mark.parametrize(("name", "dying_at"), [("published", of_kind(RETRY_KIND)), ("named", after("retry"))])
async def test_a_crash_after_a_rejection_over_amqp_has_the_message_come_again(
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


async def test_a_crash_in_a_replay_leaves_the_dead_letter_to_be_replayed(stage: Stage) -> None:
    topic = "replay-published"
    async with dying(stage) as (mortal, service):
        await send(service, draft(topic, max_retry=0))
        await pull(service, topic)
        await service.settling.nack(topic, "it", receipt=None, delay_ms=0, reason="no use")
        on_way(Way.READY)(mortal)
        await dies_in(mortal, service.dead.replay(topic, "it"))
    async with restarted(stage) as service:
        assert (await service.dead.replay(topic, "it")).record.state is State.READY
        await comes_once(service, topic, not_before_ms=0, most_attempts=1)


async def reject(stage: Stage, topic: str) -> None:
    """What an AMQP consumer does with a message it can't handle."""
    async with await aio_pika.connect(stage.rabbit.amqp_url) as connection:
        channel = await connection.channel()
        queue = await channel.get_queue(f"ready.{topic}")
        arrived: asyncio.Future[aio_pika.abc.AbstractIncomingMessage] = asyncio.get_running_loop().create_future()
        await queue.consume(arrived.set_result)
        await (await asyncio.wait_for(arrived, 20)).reject(requeue=False)
