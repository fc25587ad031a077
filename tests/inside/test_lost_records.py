"""Tests that messages whose records Redis has lost come beside other messages of their ids."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from redis.asyncio import Redis

from bridge.model.message import Envelope, State
from bridge.model.values import Draft, Leased
from bridge.service.service import Service
from tests.forked_bridge import PATIENCE
from tests.inside.crash import change
from tests.inside.running import running
from tests.inside.stage import Stage

HOUR_MS = 3_600_000
WAIT_MS = 120_000  # the checkpoint asks about a copy that is newer than its record for a minute


@pytest_asyncio.fixture(loop_scope="function")
async def service(stage: Stage) -> AsyncIterator[Service]:
    async with running(stage, **PATIENCE) as service:
        yield service


@pytest_asyncio.fixture(loop_scope="function")
async def redis(stage: Stage) -> AsyncIterator[Redis]:
    async with Redis.from_url(stage.redis_url) as redis:
        yield redis


async def send(service: Service, topic: str, message_id: str, body: str, **fields: Any) -> None:
    await service.sending.send(Draft(topic=topic, id=message_id, envelope=Envelope(body=body.encode()), **fields))


async def pulled(service: Service, topic: str, lease_ms: int = HOUR_MS) -> Leased:
    (leased,) = await service.pulling.pull([topic], limit=1, wait_ms=WAIT_MS, lease_ms=lease_ms)
    return leased


async def acked(service: Service, topic: str) -> tuple[Leased, str]:
    """Pulls and acknowledges the next message. Returns it with its body."""
    leased = await pulled(service, topic)
    (settled,) = await service.settling.ack_receipts(topic, [leased.receipt])
    assert settled.verdict == "acked"
    assert leased.message.envelope is not None
    assert leased.message.envelope.body is not None
    return leased, leased.message.envelope.body.decode()


async def test_an_older_message_of_an_id_that_comes_first_after_a_loss_supersedes_no_later_one(
    service: Service, redis: Redis
) -> None:
    topic, names = "older-first", ("waiting", "moved", "dead", "leased")
    for name in names:
        await send(service, topic, name, f"older {name}", delay_ms=6_000)
        await service.changing.delete(topic, name, release=False)
    await send(service, topic, "dead", "later dead", max_retry=0)
    await pulled(service, topic)
    dead = await service.settling.nack(topic, "dead", receipt=None, delay_ms=0, reason=None)
    assert dead.record.state is State.DEAD
    await send(service, topic, "leased", "later leased")
    assert (await pulled(service, topic, lease_ms=12_000)).message.record.id == "leased"
    await send(service, topic, "waiting", "later waiting", delay_ms=9_000)
    await send(service, topic, "moved", "later moved", delay_ms=HOUR_MS)
    await change(service, topic, "moved", delay_ms=9_000)
    await redis.flushall()

    # A lost delete is forgotten, so the older messages come. Each ends at the later one's epoch, or behind it.
    older = {f"older {name}" for name in names}
    found: set[str] = set()
    while found != older:
        found.add((await acked(service, topic))[1])
    assert await service.dead.replay_many(topic, 10) == 1
    later = {f"later {name}" for name in names}
    while found != older | later:
        found.add((await acked(service, topic))[1])


async def test_messages_that_a_failover_has_forgotten_come_beside_the_next_ones_of_their_ids(
    service: Service, redis: Redis
) -> None:
    topic, names = "failed-over", ("acked", "deleted", "used twice")
    await send(service, topic, "deleted", "first", delay_ms=HOUR_MS)
    await service.changing.delete(topic, "deleted", release=False)
    for name in ("acked", "used twice"):
        await send(service, topic, name, "first")
        await acked(service, topic)

    # A replica has this, and not the calls that follow.
    kept: dict[bytes, Any] = {key: await redis.dump(key) async for key in redis.scan_iter()}
    for name in names:
        await send(service, topic, name, "forgotten", delay_ms=6_000)
    for key in [key async for key in redis.scan_iter()]:
        await (redis.restore(key, 0, kept[key], replace=True) if key in kept else redis.delete(key))

    for name in names:
        await send(service, topic, name, "second", delay_ms=1_000)
    wanted = {f"{word} {name}" for word in ("forgotten", "second") for name in names} | {"third used twice"}
    found: dict[str, str] = {}
    while found.keys() != wanted:
        leased, body = await acked(service, topic)
        message_id, envelope = leased.message.record.id, leased.message.envelope
        assert envelope is not None
        found[f"{body} {envelope.headers.get('x-delay-message-id', message_id)}"] = message_id
        assert found.keys() <= wanted
        if (message_id, body) == ("used twice", "second"):
            await send(service, topic, "used twice", "third")
    assert {name: "~born" in message_id for name, message_id in found.items()} == {
        name: name.startswith("forgotten") for name in wanted
    }
