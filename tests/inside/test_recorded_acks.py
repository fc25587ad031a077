"""Tests that a recorded ack ends the message that its consumer had, and no later message of the id."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage

from bridge.broker.publications import Publication, Route
from bridge.metrics.registry import REGISTRY
from bridge.model.errors import BrokerUnavailable
from bridge.model.message import Envelope, State, Target
from bridge.model.values import Draft, IfExists, Policy, Release
from bridge.service.service import Service
from tests.forked_bridge import PATIENCE
from tests.inside.crash import change, comes_once, draft, pull, send
from tests.inside.running import running
from tests.inside.stage import Stage
from tests.integration.amqp import Amqp, header
from tests.waiting import pause


@asynccontextmanager
async def consumer(stage: Stage) -> AsyncIterator[Amqp]:
    async with await aio_pika.connect(stage.amqp_url) as connection:
        yield Amqp(connection)


async def record_ack(service: Service, amqp: Amqp, got: AbstractIncomingMessage, *, says_created: bool = False) -> None:
    """Publishes the ack of a delivery, and returns once the bridge has recorded it."""
    topic = header(got, "x-delay-topic")
    headers = {"x-delay-created": header(got, "x-delay-created")} if says_created else None
    await amqp.publish("delay.done", topic, b"", headers=headers, message_id=got.message_id)
    await send(service, draft(topic, message_id="marker"))
    await amqp.publish("delay.done", topic, b"", message_id="marker")
    while (await service.lookup.get(topic, "marker")).record.state is not State.ACKED:
        await pause()


def refused(reason: str) -> float:
    """How many acks have ended no message so far, by the metric of this process."""
    return REGISTRY.get_sample_value("delaybridge_acks_refused_total", {"reason": reason}) or 0.0


def replacement(topic: str, *, delay_ms: int) -> Draft:
    return replace(draft(topic, delay_ms=delay_ms), envelope=Envelope(body=b'"new"'), if_exists=IfExists.REPLACE)


async def test_recorded_ack_of_a_replaced_message_does_not_end_its_waiting_replacement(stage: Stage) -> None:
    topic, before = "replaced", refused("not_leased")
    async with running(stage, **PATIENCE) as service, consumer(stage) as amqp:
        await send(service, draft(topic, delay_ms=100))
        got = await amqp.take(f"ready.{topic}")
        sent = await service.upserting.send(replacement(topic, delay_ms=5_000))
        await record_ack(service, amqp, got)
        assert refused("not_leased") == before + 1
        await comes_once(service, topic, not_before_ms=sent.message.record.due_ms, body=b'"new"')


async def test_recorded_ack_of_an_unknown_id_is_counted(stage: Stage) -> None:
    async with running(stage, **PATIENCE) as service, consumer(stage) as amqp:
        await send(service, draft("known", delay_ms=100))
        got = await amqp.take("ready.known")
        before = refused("unknown")
        await amqp.publish("delay.done", "known", b"", message_id="nobody")
        await record_ack(service, amqp, got)
        assert refused("unknown") == before + 1


async def test_recorded_ack_with_the_moment_of_creation_does_not_end_a_released_replacement(stage: Stage) -> None:
    topic = "released"
    async with running(stage, **PATIENCE) as service, consumer(stage) as amqp:
        await send(service, draft(topic, delay_ms=100))
        got = await amqp.take(f"ready.{topic}")
        await service.upserting.send(replacement(topic, delay_ms=0))
        while (await service.lookup.get(topic, "it")).record.state is not State.READY:
            await pause()
        await record_ack(service, amqp, got, says_created=True)
        new = await amqp.take(f"ready.{topic}")
        assert (await service.lookup.get(topic, "it")).record.state is State.READY
        await record_ack(service, amqp, new, says_created=True)
        assert (await service.lookup.get(topic, "it")).record.state is State.ACKED


async def test_second_recorded_ack_does_not_end_a_message_that_took_the_id(stage: Stage) -> None:
    topic = "taken"
    async with running(stage, **PATIENCE) as service, consumer(stage) as amqp:
        await send(service, draft(topic, delay_ms=100))
        got = await amqp.take(f"ready.{topic}")
        await record_ack(service, amqp, got)
        due_ms = await send(service, draft(topic, delay_ms=5_000))
        await record_ack(service, amqp, got)
        await comes_once(service, topic, not_before_ms=due_ms)


@pytest.mark.parametrize("says_created", [False, True])
async def test_recorded_ack_of_a_direct_copy_does_not_end_the_changed_message(stage: Stage, says_created: bool) -> None:
    topic = f"changed-{says_created}"
    async with running(stage, **PATIENCE) as service, consumer(stage) as amqp:
        await service.topics.put_policy(topic, Policy(release=Release.DIRECT))
        await send(service, draft(topic, delay_ms=500))
        changed = await change(service, topic, envelope=Envelope(body=b'"new"'), delay_ms=6_000)
        got = await amqp.take(f"ready.{topic}")  # nothing stops a copy on direct release
        assert got.body == b'"it"'
        await record_ack(service, amqp, got, says_created=says_created)
        await comes_once(service, topic, not_before_ms=changed.record.due_ms, body=b'"new"')


@pytest.mark.parametrize("moved", [False, True], ids=["as sent", "moved"])
async def test_recorded_ack_ends_a_message_on_direct_release(stage: Stage, moved: bool) -> None:
    topic = f"direct-{moved}"
    async with running(stage, **PATIENCE) as service, consumer(stage) as amqp:
        await service.topics.put_policy(topic, Policy(release=Release.DIRECT))
        await send(service, draft(topic, delay_ms=500))
        if moved:  # its only copy comes at the first moment all the same
            await change(service, topic, delay_ms=60_000)
        await record_ack(service, amqp, await amqp.take(f"ready.{topic}"))
        assert (await service.lookup.get(topic, "it")).record.state is State.ACKED


async def test_message_that_its_target_took_does_not_end_its_replacement(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = "target"
    async with running(stage, **PATIENCE) as service, consumer(stage) as amqp:
        async with amqp.connection.channel() as channel:
            post = await channel.declare_exchange("post", durable=True)
            await (await channel.declare_queue("letters", durable=True)).bind(post, "letters")
        to_target = replace(
            draft(topic, delay_ms=300), envelope=Envelope(body=b'"it"', target=Target("post", "letters"))
        )
        releases = service.context.broker.releases
        publish = releases.publish

        async def replaced_then(publications: list[Publication]) -> list[BrokerUnavailable | None]:
            if any(one.route is Route.TARGET and one.copy.topic == topic for one in publications):
                monkeypatch.undo()
                await service.upserting.send(replacement(topic, delay_ms=1_000))
            return await publish(publications)

        monkeypatch.setattr(releases, "publish", replaced_then)
        await send(service, to_target)
        await amqp.take("letters")
        assert [one.message.record.id for one in await pull(service, topic)] == ["it"]
