"""Tests leases whose deliveries stay unacknowledged: how they are settled, and what a dead process leaves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from uuid import uuid4

import aio_pika
import pytest
import pytest_asyncio

from bridge.broker.publications import Publication
from bridge.model.errors import BrokerUnavailable
from bridge.model.message import CopyKind, Envelope, State
from bridge.model.values import Draft, Leased
from bridge.service.pulling import unacked_leases
from bridge.service.service import Service
from tests.fault.api import now_ms
from tests.forked_bridge import PATIENCE
from tests.inside.crash import (
    DyingAt,
    Publish,
    after,
    comes_once,
    dies_in,
    draft,
    dying,
    of_kind,
    pull,
    restarted,
    send,
)
from tests.inside.running import running
from tests.inside.stage import Stage
from tests.integration.amqp import Amqp
from tests.waiting import pause

LEASE_MS = 5_000
SOON_MS = 300  # how soon lease copies are published in these tests


@pytest.fixture
def topic() -> str:
    return f"unacked-{uuid4().hex[:12]}"


@pytest_asyncio.fixture(loop_scope="function")
async def amqp(stage: Stage) -> AsyncIterator[Amqp]:
    async with await aio_pika.connect(stage.amqp_url) as connection:
        yield Amqp(connection)


def unacked(service: Service, topic: str) -> int:
    return service.settling._unacked.count(f"ready.{topic}")


async def until_acknowledged(service: Service, topic: str) -> None:
    while unacked(service, topic):
        await pause()


async def test_message_that_is_settled_soon_needs_no_lease_copy(stage: Stage, topic: str, amqp: Amqp) -> None:
    async with running(stage, lease_copy_after=60_000, **PATIENCE) as service:
        published = publications(service)
        await send(service, draft(topic))
        (leased,) = await pull(service, topic, lease_ms=600_000)
        assert unacked(service, topic) == 1
        (result,) = await service.settling.ack_receipts(topic, [leased.receipt])
        assert result.verdict == "acked"
        await until_acknowledged(service, topic)
        # The queue is new, so the checkpoint may have published the message too.
        assert CopyKind.LEASE not in published
        assert await pull(service, topic, wait_ms=500) == []


@pytest.mark.parametrize("way", ["ack_ids", "nack", "delete", "ack"])
async def test_message_that_is_settled_in_any_way_is_acknowledged(stage: Stage, topic: str, way: str) -> None:
    async with running(stage, lease_copy_after=SOON_MS, **PATIENCE) as service:
        await send(service, draft(topic))
        (leased,) = await pull(service, topic)
        match way:
            case "ack_ids":
                await service.settling.ack_ids(topic, ["it"])
            case "ack":
                await service.settling.ack(topic, "it", None)
            case "delete":
                await service.changing.delete(topic, "it", release=False)
            case _:
                await service.settling.nack(topic, "it", receipt=leased.receipt, delay_ms=0, reason=None)
                (again,) = await pull(service, topic)
                assert again.message.record.attempts == 2
                await service.settling.ack_receipts(topic, [again.receipt])
        await until_acknowledged(service, topic)
        assert await pull(service, topic, wait_ms=500) == []


async def test_message_that_another_process_settles_is_acknowledged_without_a_lease_copy(
    stage: Stage, topic: str
) -> None:
    async with (
        # Long enough for the sibling's ack on a busy machine.
        running(stage, lease_copy_after=3_000, **PATIENCE) as holder,
        running(stage, **PATIENCE) as sibling,
    ):
        published = publications(holder)
        await send(sibling, draft(topic))
        (leased,) = await pull(holder, topic)
        (result,) = await sibling.settling.ack_receipts(topic, [leased.receipt])
        assert result.verdict == "acked"
        await until_acknowledged(holder, topic)
        assert CopyKind.LEASE not in published


async def test_lease_that_lasts_longer_gets_its_lease_copy_and_ends_on_time(stage: Stage, topic: str) -> None:
    async with running(stage, lease_copy_after=SOON_MS, **PATIENCE) as service:
        published = publications(service)
        await send(service, draft(topic))
        pulled_ms = now_ms()
        (leased,) = await pull(service, topic, lease_ms=LEASE_MS)
        await until_acknowledged(service, topic)
        assert CopyKind.LEASE in published
        (again,) = await pull(service, topic)
        assert now_ms() >= pulled_ms + LEASE_MS
        assert again.message.record.attempts == 2
        assert (await service.settling.ack_receipts(topic, [leased.receipt]))[0].verdict == "stale"
        assert (await service.settling.ack_receipts(topic, [again.receipt]))[0].verdict == "acked"


async def test_lease_without_a_kept_body_comes_back_after_a_nack(stage: Stage, topic: str) -> None:
    async with running(stage, lease_copy_after=SOON_MS, keep_body_max=0, **PATIENCE) as service:
        await send(service, draft(topic))
        (leased,) = await pull(service, topic, lease_ms=LEASE_MS)
        await service.settling.nack(topic, "it", receipt=leased.receipt, delay_ms=0, reason=None)
        (again,) = await pull(service, topic)
        assert again.message.record.attempts == 2
        assert again.message.envelope is not None
        assert again.message.envelope.body == b'"it"'


DIES = {
    "leased": after("lease"),
    "lease copy published": of_kind(CopyKind.LEASE),
    "lease copy named": after("lease_copy"),
}


@pytest.mark.parametrize("step", DIES)
async def test_message_of_a_process_that_dies_comes_once_when_its_lease_ends(
    stage: Stage, topic: str, step: str
) -> None:
    dying_at: DyingAt = DIES[step]
    async with dying(stage, lease_copy_after=SOON_MS) as (mortal, service):
        await send(service, draft(topic))
        dying_at(mortal)
        pulled_ms = now_ms()
        if step == "leased":
            await dies_in(mortal, pull(service, topic, lease_ms=LEASE_MS))
        else:
            assert await pull(service, topic, lease_ms=LEASE_MS)
            await mortal.die()
    async with restarted(stage) as service:
        await comes_once(service, topic, not_before_ms=pulled_ms + LEASE_MS, most_attempts=2)


async def test_ack_after_the_death_of_the_process_that_leased_is_final(stage: Stage, topic: str) -> None:
    async with dying(stage) as (mortal, service):
        await send(service, draft(topic))
        (leased,) = await pull(service, topic, lease_ms=LEASE_MS)
        await mortal.end()
    async with restarted(stage) as service:
        (result,) = await service.settling.ack_receipts(topic, [leased.receipt])
        assert result.verdict == "acked"
        assert await pull(service, topic, wait_ms=LEASE_MS + 1_000) == []


async def test_lease_goes_on_when_the_process_loses_its_connections(stage: Stage, topic: str) -> None:
    async with (
        stage.proxy(stage.amqp_url) as rabbit,
        running(stage, amqp_url=rabbit.url, lease_copy_after=SOON_MS, **PATIENCE) as service,
    ):
        await send(service, draft(topic))
        pulled_ms = now_ms()
        await pull(service, topic, lease_ms=LEASE_MS)
        rabbit.cut()
        rabbit.mend()
        await comes_once(service, topic, not_before_ms=pulled_ms + LEASE_MS, most_attempts=2)
        await until_acknowledged(service, topic)


async def test_amqp_consumer_that_rejects_a_leased_message_does_not_end_the_lease(
    stage: Stage, topic: str, amqp: Amqp
) -> None:
    async with dying(stage) as (mortal, service):
        await send(service, draft(topic))
        pulled_ms = now_ms()
        await pull(service, topic, lease_ms=LEASE_MS)
        await mortal.end()
    async with amqp.consume(f"ready.{topic}") as arrivals:
        await (await arrivals.get()).reject(requeue=False)
    async with restarted(stage) as service:
        await comes_once(service, topic, not_before_ms=pulled_ms + LEASE_MS, most_attempts=2)


async def test_stopping_process_leaves_lease_copies(stage: Stage, topic: str, amqp: Amqp) -> None:
    async with running(stage, **PATIENCE) as service:
        await send(service, draft(topic))
        pulled_ms = now_ms()
        await pull(service, topic, lease_ms=LEASE_MS)
        assert unacked(service, topic) == 1
        await service.stop()
        assert unacked(service, topic) == 0
    assert await amqp.count(f"ready.{topic}") == 0
    async with restarted(stage) as service:
        await comes_once(service, topic, not_before_ms=pulled_ms + LEASE_MS, most_attempts=2)


async def test_a_process_keeps_few_deliveries_of_a_queue_unacknowledged(
    stage: Stage, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unacked_leases, "MOST_OF_QUEUE", 8)
    async with running(stage, **PATIENCE) as service:
        drafts = [Draft(topic=topic, id=str(at), envelope=Envelope(body=b"1")) for at in range(20)]
        await service.sending.send_many(drafts)
        leased: list[Leased] = []
        while len(leased) < len(drafts):
            leased += await service.pulling.pull([topic], limit=20, wait_ms=10_000, lease_ms=60_000)
            assert unacked(service, topic) <= 8
        results = await service.settling.ack_receipts(topic, [one.receipt for one in leased])
        assert {result.verdict for result in results} == {"acked"}
        await until_acknowledged(service, topic)


@pytest.mark.expects_log("loop.failed")
async def test_failure_with_one_lease_requeues_its_delivery_and_the_lease_goes_on(
    stage: Stage, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise RuntimeError("an injected fault")

    monkeypatch.setattr(unacked_leases, "late_step", failing)
    async with running(stage, lease_copy_after=SOON_MS, **PATIENCE) as service:
        await send(service, draft(topic))
        pulled_ms = now_ms()
        assert await pull(service, topic, lease_ms=LEASE_MS)
        await until_acknowledged(service, topic)
        monkeypatch.undo()
        await comes_once(service, topic, not_before_ms=pulled_ms + LEASE_MS, most_attempts=2)


async def test_leases_are_kept_while_rabbitmq_takes_no_copies(stage: Stage, topic: str) -> None:
    async with (
        stage.proxy(stage.amqp_url) as rabbit,
        running(stage, amqp_url=rabbit.url, lease_copy_after=SOON_MS, **PATIENCE) as service,
    ):
        await send(service, draft(topic))
        (leased,) = await pull(service, topic)
        published = publications(service)
        rabbit.fall_silent()
        while CopyKind.LEASE not in published:
            await pause()
        rabbit.speak()
        await until_acknowledged(service, topic)
        record = (await service.lookup.get(topic, "it")).record
        assert record.state is State.LEASED
        assert (await service.settling.ack_receipts(topic, [leased.receipt]))[0].verdict == "acked"


def publications(service: Service) -> list[CopyKind]:
    """The kinds of all copies that the service begins to publish from now on."""
    kinds: list[CopyKind] = []

    def noting(publish: Publish) -> Publish:
        async def noted(publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
            kinds.extend(one.kind for one in publications)
            return await publish(publications)

        return noted

    broker = service.context.broker
    for ways in (broker.copy_publisher, broker.releases):
        ways.publish = noting(ways.publish)  # type: ignore[method-assign, assignment]
    return kinds
