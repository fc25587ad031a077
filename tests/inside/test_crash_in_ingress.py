"""Tests that a process that dies between two steps of the ingress leaves each message to the next process, once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import cast

import aio_pika
import pytest

from bridge.broker.client.consumer import Consumer
from bridge.broker.copies.properties import Message
from bridge.broker.copies.submissions import Submission
from bridge.broker.publications import Route
from bridge.model.errors import BrokerUnavailable
from bridge.model.message import Envelope
from bridge.model.values import Draft
from bridge.service.sending.acceptance import Acceptance
from bridge.service.sending.sending import Sending
from bridge.service.service import Service
from bridge.store.kept import intents
from bridge.store.kept.intents import StoredIntents
from bridge.store.replies import texts
from tests.fault.api import now_ms
from tests.inside.crash import ABSENCE_MS, DyingAt, after, before, comes_once, dies_in, dying, on_way, pull, restarted
from tests.inside.stage import Stage
from tests.waiting import pause

DELAY_MS = 1_000


@pytest.fixture(autouse=True)
def _ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that was killed counts as ended after half a second."""
    monkeypatch.setattr(intents, "_ALIVE_MS", 500)


async def publish(stage: Stage, topic: str, *messages: aio_pika.Message) -> None:
    async with (
        await aio_pika.connect(stage.amqp_url) as connection,
        connection.channel(on_return_raises=True) as channel,
    ):
        entry = await channel.get_exchange("delay.in", ensure=False)
        await asyncio.gather(*(entry.publish(message, topic, timeout=10) for message in messages))


def message(body: bytes = b'"it"', *, message_id: str | None = "it", delay_ms: int = DELAY_MS) -> aio_pika.Message:
    return aio_pika.Message(
        body,
        message_id=message_id,
        content_type="application/json",
        headers={"x-delay": delay_ms},
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
    )


@pytest.mark.parametrize(
    ("name", "dying_at", "message_id"),
    [
        ("unclaimed", before("schedule"), None),
        ("claimed", after("schedule"), "it"),  # the next claim has to wait until it may take the id over
        ("published", on_way(Route.WHEEL), None),
        ("confirmed", after("confirm"), "it"),
        ("confirmed", after("confirm"), None),
    ],
)
async def test_message_comes_once_after_a_crash(
    stage: Stage, name: str, dying_at: DyingAt, message_id: str | None
) -> None:
    topic = f"{name}-{message_id}"
    async with dying(stage) as (mortal, _):
        dying_at(mortal)
        due_ms = now_ms() + DELAY_MS
        await dies_in(mortal, publish_and_wait(stage, topic, message(message_id=message_id)))
    async with restarted(stage) as service:
        await comes_once(service, topic, not_before_ms=due_ms, message_id=message_id)


async def test_message_whose_ack_was_lost_in_the_crash_comes_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = asyncio.Event()

    def lost(consumer: Consumer, tags: Iterable[int]) -> None:
        if [*tags]:
            written.set()

    async with dying(stage) as (mortal, _):
        with monkeypatch.context() as patched:
            patched.setattr(Consumer, "ack", lost)
            due_ms = now_ms() + DELAY_MS
            await publish(stage, "unread", message())
            await written.wait()
            await pause(0.3)  # the bridge goes on after the ack
            await mortal.end()
    async with restarted(stage) as service:
        await comes_once(service, "unread", not_before_ms=due_ms)


async def test_message_whose_id_is_used_again_comes_once_after_a_crash(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, acks = "again", asyncio.Semaphore(0)

    def lost(consumer: Consumer, tags: Iterable[int]) -> None:
        for _ in tags:
            acks.release()

    async with dying(stage) as (mortal, _):
        with monkeypatch.context() as patched:
            patched.setattr(Consumer, "ack", lost)
            for body in (b"first", b"second"):
                await publish(stage, topic, message(body))
                await acks.acquire()
            await mortal.end()
    async with restarted(stage) as service:
        assert sorted(await all_of(service, topic, 2)) == [b"first", b"second"]


async def test_notes_of_acknowledged_messages_are_forgotten(stage: Stage) -> None:
    async with restarted(stage) as service:
        await publish(stage, "forgotten", *(message(message_id=f"m-{at}", delay_ms=3_600_000) for at in range(50)))
        async with asyncio.timeout(30):
            while None in await service.lookup.get_many("forgotten", [f"m-{at}" for at in range(50)]):
                await pause()
            while await notes(service, "forgotten"):
                await pause()


async def test_message_that_is_tried_again_stays_with_its_session(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_: Sending, drafts: Sequence[Draft]) -> list[BrokerUnavailable]:
        return [BrokerUnavailable("RabbitMQ is away") for _ in drafts]

    draft = Draft(topic="tried", envelope=Envelope(body=b"1"), delay_ms=9_000)
    submission = Submission(1, cast("Message", None), draft, again=True, fingerprint="print")
    async with restarted(stage) as service:
        monkeypatch.setattr(Sending, "send_many", refused)
        context = service.context
        acceptance, other = Acceptance(context), StoredIntents(context.store, context.records.keys, "other")
        began_ms = at_ms = int(context.store.clock.now_ms())
        while at_ms < began_ms + 1_000:
            await pause()
            at_ms = int(context.store.clock.now_ms())
            accepted = await acceptance.accept([submission])
            assert accepted.later == [submission]
        (found,) = await other.others(["tried"], {"print"}, at_ms)
        assert not found.ended


async def notes(service: Service, topic: str) -> list[str]:
    """The names of the intents of all sessions for messages to the topic."""
    store, keys = service.context.store, service.context.records.keys
    sessions = texts(await store.command("ZRANGE", keys.ingress_sessions(topic), 0, -1))
    of_sessions = [await store.command("HKEYS", keys.ingress_intents(topic, name)) for name in sessions]
    return [note for names in of_sessions for note in texts(names)]


async def publish_and_wait(stage: Stage, topic: str, *messages: aio_pika.Message) -> None:
    await publish(stage, topic, *messages)
    await asyncio.Event().wait()


@pytest.mark.parametrize(("name", "dying_at"), [("unclaimed", before("schedule")), ("confirmed", after("confirm"))])
async def test_equal_messages_without_ids_come_as_often_as_they_were_published(
    stage: Stage, name: str, dying_at: DyingAt
) -> None:
    topic = f"equal-{name}"
    messages = [message(message_id=None) for _ in range(5)]
    async with dying(stage) as (mortal, _):
        dying_at(mortal)
        await dies_in(mortal, publish_and_wait(stage, topic, *messages))
    async with restarted(stage) as service:
        assert len(await all_of(service, topic, 5)) == 5


async def test_different_messages_under_one_id_all_come_after_a_crash(stage: Stage) -> None:
    topic = "different"
    async with dying(stage) as (mortal, _):
        mortal.dies_after_script("confirm")
        await dies_in(mortal, publish_and_wait(stage, topic, *(message(b"%d" % at) for at in range(5))))
    async with restarted(stage) as service:
        assert sorted(await all_of(service, topic, 5)) == [b"%d" % at for at in range(5)]


async def test_message_that_was_deleted_stays_deleted_if_it_comes_again(stage: Stage) -> None:
    async with dying(stage) as (mortal, service):
        mortal.dies_after_script("confirm")
        await dies_in(mortal, publish_and_wait(stage, "deleted", message()))
        # Its ack has not reached RabbitMQ.
    async with restarted(stage) as service:
        await until(service, "deleted")
        await service.changing.delete("deleted", "it", release=False)
        assert await pull(service, "deleted", wait_ms=DELAY_MS + ABSENCE_MS) == []


async def until(service: Service, topic: str) -> None:
    async with asyncio.timeout(30):
        while await service.lookup.get_many(topic, ["it"]) == [None]:
            await pause()


async def all_of(service: Service, topic: str, count: int) -> list[bytes]:
    """Pulls until nothing more comes, and acknowledges."""
    bodies: list[bytes] = []
    while True:
        wait_ms = 20_000 if len(bodies) < count else ABSENCE_MS
        pulled = await pull(service, topic, wait_ms=wait_ms)
        if not pulled:
            return bodies
        bodies += [one.message.envelope.body or b"" for one in pulled if one.message.envelope is not None]
        await service.settling.ack_receipts(topic, [one.receipt for one in pulled])
