"""Tests that nobody gets the copy of a call that Redis refused after RabbitMQ had confirmed the copy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aio_pika
import pytest

from bridge.broker import publications
from bridge.loops.checkpoint import batches, moments
from bridge.model.errors import Conflict, StoreUnavailable
from bridge.model.message import Envelope, State
from bridge.service.sending import replacing
from bridge.service.service import Service
from bridge.store.messages import records
from tests.fault.test_full_redis import memory_full
from tests.forked_bridge import PATIENCE
from tests.inside.crash import change, draft, pull, send
from tests.inside.running import running
from tests.inside.stage import Stage
from tests.inside.test_final_deletes import after_next_publish
from tests.waiting import pause

Call = Callable[[Service, str], Coroutine[Any, Any, object]]

PATIENCE_S = 60.0
REFUSED, MARKER = Envelope(body=b'"refused"'), Envelope(body=b'"marker"')


def ask_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis is asked a second and a half ahead of the moment."""
    monkeypatch.setattr(publications, "LEAD_MS", 1_500)
    for module in (records, moments, batches, replacing):
        monkeypatch.setattr(module, "AHEAD_MS", 1_500)


async def waits(service: Service, topic: str) -> None:
    await send(service, draft(topic, delay_ms=3_000))


async def is_leased(service: Service, topic: str) -> None:
    await send(service, draft(topic))
    await pull(service, topic, lease_ms=1_500)


async def change_content(service: Service, topic: str) -> object:
    return await change(service, topic, envelope=REFUSED, delay_ms=0)


async def replace_it(service: Service, topic: str) -> object:
    record = (await service.lookup.get(topic, "it")).record
    return await service.replacing.replace(record, replace(draft(topic), envelope=REFUSED))


async def nack(service: Service, topic: str) -> object:
    # The checkpoint would soon believe a copy that is due before the lease ends.
    return await service.settling.nack(topic, "it", receipt=None, delay_ms=2_500, reason=None)


@asynccontextmanager
async def consuming(stage: Stage, topic: str) -> AsyncIterator[asyncio.Queue[bytes]]:
    """The bodies that an AMQP consumer of the topic's ready queue gets."""
    arrived: asyncio.Queue[bytes] = asyncio.Queue()

    async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        await message.ack()
        arrived.put_nowait(message.body)

    async with await aio_pika.connect(stage.amqp_url) as connection, connection.channel() as channel:
        queue = await channel.get_queue(f"ready.{topic}", ensure=False)
        await queue.consume(take)
        yield arrived


async def bodies_before_marker(
    service: Service, topic: str, arrived: asyncio.Queue[bytes], monkeypatch: pytest.MonkeyPatch
) -> list[bytes]:
    """Waits until the message has come and a marker after it, which is due once the refused copy would be believed. A
    copy that no record names is believed at its second question, once the message has come: until then a busy process
    may ask about the copy before it releases the message."""
    bodies = [await arrived.get()]
    monkeypatch.setattr(batches, "ADOPT_AFTER_ASKED", 2)
    await send(service, replace(draft(topic, message_id="marker", delay_ms=2_500), envelope=MARKER))
    while (body := await arrived.get()) != MARKER.body:
        bodies.append(body)
    return bodies


@pytest.mark.parametrize(
    ("begins", "call"),
    [
        pytest.param(waits, change_content, id="change"),
        pytest.param(waits, replace_it, id="replace"),
        pytest.param(is_leased, nack, id="nack"),
    ],
)
async def test_copy_of_a_call_that_the_moment_overtook_reaches_nobody(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, begins: Call, call: Call
) -> None:
    topic = f"overtaken-{call.__name__}"
    if call is replace_it:
        ask_ahead(monkeypatch)  # at its moment a message can be replaced
    async with running(stage, **PATIENCE) as service, asyncio.timeout(PATIENCE_S):

        async def until_ready() -> None:
            while (await service.lookup.get(topic, "it")).record.state is not State.READY:
                await pause()

        await begins(service, topic)
        after_next_publish(service, until_ready)
        with pytest.raises(Conflict):
            await call(service, topic)
        async with consuming(stage, topic) as arrived:
            assert await bodies_before_marker(service, topic, arrived, monkeypatch) == [b'"it"']


@pytest.mark.parametrize(
    ("begins", "call"),
    [
        pytest.param(waits, change_content, id="change"),
        pytest.param(waits, replace_it, id="replace"),
    ],
)
async def test_copy_of_a_call_that_a_full_redis_refused_reaches_nobody(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, begins: Call, call: Call
) -> None:
    topic = f"full-{call.__name__}"
    async with running(stage, **PATIENCE) as service, asyncio.timeout(PATIENCE_S):
        await begins(service, topic)
        full = memory_full(stage.redis_url)
        after_next_publish(service, full.__aenter__)
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            await call(service, topic)
        await full.__aexit__(None, None, None)
        async with consuming(stage, topic) as arrived:
            assert await bodies_before_marker(service, topic, arrived, monkeypatch) == [b'"it"']
