"""Tests that nobody gets a message after its delete was answered 200, whatever other calls were doing meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import aio_pika
import pytest
import pytest_asyncio
from redis.asyncio import Redis

from bridge.broker.publications import Publication
from bridge.model.errors import BrokerUnavailable, Conflict, NotFound, StoreUnavailable
from bridge.model.message import CopyKind, State
from bridge.service.service import Service
from bridge.service.topics import policies
from bridge.store.scripts import SCRIPTS
from tests.forked_bridge import PATIENCE
from tests.inside.crash import change as changed
from tests.inside.crash import dies_in, draft, dying, of_kind, pull, send
from tests.inside.running import fire_answered, running
from tests.inside.stage import Stage
from tests.waiting import pause

HOUR_MS = 3_600_000
LATER_MS = 15_000
ROUNDS = 60
MARKER = "marker"


@pytest_asyncio.fixture(loop_scope="function")
async def service(stage: Stage) -> AsyncIterator[Service]:
    # A busy machine may take longer than the default limit to open channels.
    async with running(stage, **PATIENCE) as service:
        yield service


@asynccontextmanager
async def consuming(stage: Stage, topic: str) -> AsyncIterator[asyncio.Queue[str]]:
    """The ids that a bare AMQP consumer of the topic's ready queue gets."""
    arrived: asyncio.Queue[str] = asyncio.Queue()

    async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        await message.ack()
        arrived.put_nowait(message.message_id or "")

    async with await aio_pika.connect(stage.amqp_url) as connection, connection.channel() as channel:
        queue = await channel.get_queue(f"ready.{topic}", ensure=False)
        await queue.consume(take)
        yield arrived


async def arrivals_before_marker(
    service: Service, topic: str, arrived: asyncio.Queue[str], *, delay_ms: int = 2_000
) -> list[str]:
    """Sends a marker that is due after every copy of the test has been asked about, and returns the ids before it."""
    await send(service, draft(topic, message_id=MARKER, delay_ms=delay_ms))
    ids = []
    while (arrival := await arrived.get()) != MARKER:
        ids.append(arrival)
    return ids


async def waits(service: Service, topic: str) -> None:
    await send(service, draft(topic, delay_ms=HOUR_MS))


async def is_leased(service: Service, topic: str) -> None:
    await send(service, draft(topic))
    await pull(service, topic)


async def is_dead(service: Service, topic: str) -> None:
    await send(service, draft(topic, max_retry=0))
    await pull(service, topic)
    await service.settling.nack(topic, "it", receipt=None, delay_ms=0, reason=None)


async def move(service: Service, topic: str) -> object:
    return await changed(service, topic, delay_ms=0)


async def nack(service: Service, topic: str) -> object:
    return await service.settling.nack(topic, "it", receipt=None, delay_ms=0, reason=None)


async def replace(service: Service, topic: str) -> object:
    # Its first try finds that the message is gone, and it then sends another one of the same id.
    record = (await service.lookup.get(topic, "it")).record
    return await service.replacing.replace(record, draft(topic))


async def replay(service: Service, topic: str) -> object:
    return await service.dead.replay(topic, "it")


async def delete(service: Service, topic: str) -> object:
    return await service.changing.delete(topic, "it", release=False)


async def drop(service: Service, topic: str) -> object:
    return await service.dead.drop(topic, "it")


Call = Callable[[Service, str], Coroutine[Any, Any, object]]


@pytest.mark.parametrize(
    ("begins", "change", "end"),
    [
        pytest.param(waits, move, delete, id="move"),
        pytest.param(is_leased, nack, delete, id="nack"),
        pytest.param(waits, replace, delete, id="replace"),
        pytest.param(is_dead, replay, drop, id="replay"),
    ],
)
async def test_a_delete_between_a_successors_publish_and_its_naming_is_final(
    stage: Stage, service: Service, begins: Call, change: Call, end: Call
) -> None:
    topic = f"between-{change.__name__}"
    await begins(service, topic)
    # In one process a drop waits for the replay of the letter.
    async with running(stage, **PATIENCE) as other, consuming(stage, topic) as arrived:
        after_next_publish(service, lambda: end(other, topic))
        with suppress(Conflict, NotFound):
            await change(service, topic)
        assert (await service.lookup.get(topic, "it")).record.state is State.DELETED
        assert await arrivals_before_marker(service, topic, arrived) == []


def after_next_publish(service: Service, do: Callable[[], Awaitable[object]]) -> None:
    """Calls `do` between the next publications and their naming: RabbitMQ has confirmed them, and the checkpoint has
    asked about them."""
    publisher = service.context.broker.copy_publisher
    publish = publisher.publish

    async def publish_and_do(publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
        publisher.publish = publish  # type: ignore[method-assign]
        asked = asyncio.create_task(fire_answered(service))
        errors = await publish(publications)
        await asked
        await do()
        return errors

    publisher.publish = publish_and_do  # type: ignore[method-assign]


async def test_a_delete_beside_a_move_to_now_is_final(stage: Stage, service: Service) -> None:
    topic = "beside"
    deleted: set[str] = set()
    await send(service, draft(topic, message_id="first", delay_ms=HOUR_MS))
    async with consuming(stage, topic) as arrived:
        for at in range(ROUNDS):
            message_id = f"m-{at}"
            await send(service, draft(topic, message_id=message_id, delay_ms=HOUR_MS))
            moving = asyncio.create_task(changed(service, topic, message_id, delay_ms=0))
            await pause(0.001 * (at % 5))  # each delete begins at another step of the move
            await service.changing.delete(topic, message_id, release=False)
            try:
                await moving
            except Conflict:
                # The message was deleted while it waited.
                deleted.add(message_id)
        assert deleted
        assert deleted.isdisjoint(await arrivals_before_marker(service, topic, arrived))


async def nack_later(service: Service, topic: str) -> object:
    return await service.settling.nack(topic, "it", receipt=None, delay_ms=LATER_MS, reason=None)


async def replace_later(service: Service, topic: str) -> object:
    record = (await service.lookup.get(topic, "it")).record
    return await service.replacing.replace(record, draft(topic, delay_ms=LATER_MS))


@pytest.mark.parametrize(("change", "kind"), [(nack_later, CopyKind.RETRY), (replace_later, CopyKind.MOVE)])
async def test_a_delete_after_a_crash_between_a_successors_publish_and_its_naming_is_final(
    stage: Stage, change: Call, kind: CopyKind
) -> None:
    """Without an announcement Redis forgets the tombstone four seconds after the lease, and so before the successor.

    A busy machine needs these seconds: the nack must come before the lease ends, and the checkpoint may be late.
    """
    topic, settings = f"unnamed-{kind}", {"retention": 4_000, "tombstone_retention": 4_000}
    async with dying(stage, **settings) as (mortal, dying_service), running(stage, **settings) as service:
        await send(service, draft(topic))
        (leased,) = await pull(service, topic, lease_ms=8_000)
        of_kind(kind)(mortal)
        await dies_in(mortal, change(dying_service, topic))
        deleted = await service.changing.delete(topic, "it", release=False)
        assert (deleted.record.state, deleted.record.epoch) == (State.DELETED, leased.message.record.epoch)
        async with consuming(stage, topic) as arrived:
            assert await arrivals_before_marker(service, topic, arrived, delay_ms=LATER_MS) == []


async def test_a_refused_send_does_not_revive_a_message_that_was_deleted_meanwhile(
    stage: Stage, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network holds back each request to Redis. So the send is refused while its claim is on the way."""
    topic = "refused"
    what = draft(topic, delay_ms=2_000)
    async with stage.proxy(stage.redis_url) as proxy, running(stage, redis_url=proxy.url) as slow:
        await send(slow, draft(topic, message_id="first", delay_ms=HOUR_MS))
        await slow.context.broker.declared.settled([topic], old=())  # a send to a young queue has more time
        monkeypatch.setattr(policies, "_FRESH_S", 0)  # so that the send asks for the policy first
        proxy.request_latency_s = 0.8
        with pytest.raises(StoreUnavailable):
            await slow.sending.send(what)
        await send(service, what)
        await service.changing.delete(topic, "it", release=False)
        async with consuming(stage, topic) as arrived:
            assert await arrivals_before_marker(service, topic, arrived, delay_ms=6_000) == []
        assert (await service.lookup.get(topic, "it")).record.state is State.DELETED
        proxy.request_latency_s = 0.0


async def ack(service: Service, topic: str) -> object:
    return await service.settling.ack_ids(topic, ["it"])


@asynccontextmanager
async def logging_calls(redis_url: str) -> AsyncIterator[Redis]:
    """A client of a Redis that logs its calls meanwhile."""
    async with Redis.from_url(redis_url) as redis:
        await redis.config_set("slowlog-log-slower-than", 0)
        try:
            yield redis
        finally:
            await redis.config_set("slowlog-log-slower-than", 10_000)


async def has_run(redis: Redis, script: str) -> bool:
    """Whether Redis' log has a call of the script. Reading the log does not empty it."""
    return any(SCRIPTS[script].sha.encode() in call["command"] for call in await redis.slowlog_get(128))


@pytest.mark.parametrize("end", [delete, ack])
async def test_a_refused_delete_or_ack_does_not_end_the_next_message_of_the_id(
    stage: Stage, service: Service, end: Call
) -> None:
    topic = f"late-{end.__name__}"
    async with stage.proxy(stage.redis_url) as proxy, running(stage, redis_url=proxy.url) as cut_off:
        await send(service, draft(topic, delay_ms=HOUR_MS))
        await end(cut_off, topic)  # Redis has the script from now on
        await send(service, draft(topic, delay_ms=HOUR_MS))
        proxy.fall_silent()
        with pytest.raises(StoreUnavailable):
            await end(cut_off, topic)
        await delete(service, topic)
        await send(service, draft(topic, delay_ms=HOUR_MS))
        async with logging_calls(stage.redis_url) as redis:
            proxy.speak()
            while not await has_run(redis, end.__name__):
                await pause()
        assert (await service.lookup.get(topic, "it")).record.state is State.WAITING
