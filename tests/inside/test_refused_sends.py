"""Tests what a send leaves behind that was refused before its message was published."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import aio_pika
import pytest

from bridge.broker.publications import Publication
from bridge.model.errors import BrokerUnavailable, StoreUnavailable
from bridge.service.service import Service
from bridge.store.replies import binaries
from tests.inside.crash import draft, pull, send
from tests.inside.running import running
from tests.inside.stage import Stage

DAY_MS = 86_400_000


async def records(service: Service, topic: str) -> list[bytes]:
    return binaries(await service.context.store.command("KEYS", f"*{{{topic}}}/m/*"))


async def test_a_send_that_was_not_published_leaves_no_record(stage: Stage) -> None:
    topic = "unpublished"
    async with stage.proxy(stage.amqp_url) as proxy, running(stage, amqp_url=proxy.url) as service:
        await send(service, draft(topic, message_id="known", delay_ms=30 * DAY_MS))
        known = await records(service, topic)
        proxy.cut()
        for at in range(5):
            with pytest.raises(BrokerUnavailable):
                await service.sending.send(draft(topic, message_id=f"m-{at}", delay_ms=30 * DAY_MS))
        # The first send may have been written before the connection was known to be cut.
        assert set(await records(service, topic)) - set(known) <= {f"delay/{{{topic}}}/m/m-0".encode()}
        proxy.mend()


async def test_a_send_that_was_not_published_keeps_the_tombstone_of_its_id(stage: Stage) -> None:
    topic = "tombstone"
    async with stage.proxy(stage.amqp_url) as proxy, running(stage, amqp_url=proxy.url) as service:
        await send(service, draft(topic, delay_ms=3_000))
        await service.changing.delete(topic, "it", release=False)
        proxy.cut()
        for _ in range(2):
            with pytest.raises(BrokerUnavailable):
                await service.sending.send(draft(topic, delay_ms=30 * DAY_MS))
        proxy.mend()
        await send(service, draft(topic, message_id="marker", delay_ms=4_000))
        (leased,) = await pull(service, topic)
        assert leased.message.record.id == "marker"


@pytest.mark.parametrize("key", ["0.0.0.0.0.0.0.", ""])
async def test_a_refused_send_does_not_hold_back_an_amqp_clients_message_of_its_id(stage: Stage, key: str) -> None:
    """The lost confirm leaves an unconfirmed record. An empty key: straight into the ready queue."""
    topic = f"poisoned-{len(key)}"
    async with stage.proxy(stage.amqp_url) as proxy, running(stage, amqp_url=proxy.url) as service:
        await send(service, draft(topic, message_id="first", delay_ms=30 * DAY_MS))
        proxy.lose_the_answer_to(b"the-one")
        with pytest.raises(BrokerUnavailable):
            await service.sending.send(draft(topic, message_id="the-one", delay_ms=30 * DAY_MS))
        async with await aio_pika.connect(stage.amqp_url) as connection, connection.channel() as channel:
            exchange = await channel.get_exchange("delay" if key else "", ensure=False)
            message = aio_pika.Message(b'"of a client"', message_id="the-one")
            await exchange.publish(message, f"{key}{topic}" if key else f"ready.{topic}")
        (leased,) = await pull(service, topic)
        assert leased.message.record.id == "the-one"
        assert leased.message.envelope is not None
        assert leased.message.envelope.body == b'"of a client"'


async def test_a_message_whose_send_was_confirmed_too_late_answers_the_next_send(stage: Stage) -> None:
    """RabbitMQ confirms the message after its caller was answered 503, and a consumer gets it before the next send."""
    topic, wanted = "too-late", draft("too-late", delay_ms=500)
    async with running(stage, store_timeout=10_000) as service:
        await send(service, draft(topic, message_id="first", delay_ms=30 * DAY_MS))
        await service.context.broker.declared.settled([topic], old=())  # sends to a new topic end with their callers
        publisher, refused = service.context.broker.copy_publisher, asyncio.Event()
        publish = publisher.publish

        async def publish_until_refused(publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
            errors = await publish(publications)
            await refused.wait()
            return errors

        publisher.publish = publish_until_refused  # type: ignore[method-assign]
        service.sending._answer_within_s = 1.0
        with pytest.raises(StoreUnavailable):
            await service.sending.send(wanted)
        refused.set()
        await service.sending.finish()
        (leased,) = await pull(service, topic)
        assert [one.verdict for one in await service.settling.ack_receipts(topic, [leased.receipt])] == ["acked"]
        assert (await service.sending.send(wanted)).replayed
        assert await pull(service, topic, wait_ms=1_000) == []
