"""Tests that a process that dies before or while it handles a bundle leaves all its messages to the next process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from bridge.broker.publications import Route
from bridge.model.errors import Unavailable
from bridge.model.message import CopyKind, Envelope, State
from bridge.model.values import Draft, Leased
from bridge.service.service import Service
from tests.fault.api import now_ms
from tests.inside.crash import DyingAt, after, before, dies_in, dying, of_kind, on_way, restarted
from tests.inside.stage import Stage
from tests.waiting import pause

IDS = [f"m-{at}" for at in range(8)]
PATIENCE_S = 30.0


async def send_all(service: Service, topic: str, *, delay_ms: int = 0) -> int:
    """Sends all messages together until they are accepted, and returns the first due moment in Unix ms."""
    drafts = [Draft(topic=topic, id=one, envelope=Envelope(body=one.encode()), delay_ms=delay_ms) for one in IDS]
    due_ms: dict[str, int] = {}
    async with asyncio.timeout(PATIENCE_S):
        while len(due_ms) < len(IDS):
            for result in await service.sending.send_many(drafts):
                if not isinstance(result, Exception):
                    due_ms[result.message.record.id] = result.message.record.due_ms
            await pause()
    return min(due_ms.values())


async def pull_all(service: Service, topic: str, *, lease_ms: int) -> list[Leased]:
    """Pulls until every message has come."""
    found: dict[str, Leased] = {}
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < len(IDS):
            with suppress(Unavailable):
                for leased in await service.pulling.pull([topic], limit=100, wait_ms=2_000, lease_ms=lease_ms):
                    found[leased.message.record.id] = leased
            await pause()
    return list(found.values())


async def pull_some(service: Service, topic: str, *, wait_ms: int) -> list[Leased]:
    """Pulls until a pull is answered."""
    while True:
        with suppress(Unavailable):
            return await service.pulling.pull([topic], limit=100, wait_ms=wait_ms, lease_ms=30_000)
        await pause()


async def each_comes_once(
    service: Service, topic: str, ids: Sequence[str], *, not_before_ms: int, most_attempts: int = 1
) -> None:
    """Asserts that each message is delivered, is acked, and does not come back."""
    left = set(ids)
    async with asyncio.timeout(PATIENCE_S):
        while left:
            pulled = await pull_some(service, topic, wait_ms=5_000)
            assert not pulled or now_ms() >= not_before_ms
            for leased in pulled:
                left.remove(leased.message.record.id)
                assert leased.message.record.attempts <= most_attempts
                assert leased.message.envelope is not None
                assert leased.message.envelope.body == leased.message.record.id.encode()
            acked = await service.settling.ack_receipts(topic, [leased.receipt for leased in pulled])
            assert {one.verdict for one in acked} <= {"acked"}
    assert await pull_some(service, topic, wait_ms=1_500) == []
    for one in ids:
        assert (await service.lookup.get(topic, one)).record.state is State.ACKED


@pytest.mark.parametrize(
    ("name", "dying_at"), [("asked", before("fire")), ("fired", after("fire")), ("released", on_way(Route.READY))]
)
async def test_another_checkpoint_releases_a_whole_bundle_after_a_crash(
    stage: Stage, name: str, dying_at: DyingAt
) -> None:
    topic = f"bundle-fire-{name}"
    async with dying(stage) as (mortal, service):
        due_ms = await send_all(service, topic, delay_ms=3_500)
        dying_at(mortal)
        await mortal.die()
    async with restarted(stage) as service:
        await each_comes_once(service, topic, IDS, not_before_ms=due_ms)


@pytest.mark.parametrize(
    ("name", "dying_at"),
    [("claimed", after("schedule")), ("published", of_kind(CopyKind.CHECKED)), ("confirmed", after("confirm"))],
)
async def test_a_crash_in_a_batch_leaves_each_message_once_they_are_sent_again(
    stage: Stage, name: str, dying_at: DyingAt
) -> None:
    topic = f"bundle-send-{name}"
    drafts = [Draft(topic=topic, id=one, envelope=Envelope(body=one.encode()), delay_ms=400) for one in IDS]
    not_before_ms = now_ms() + 400
    async with dying(stage) as (mortal, service):
        dying_at(mortal)
        await dies_in(mortal, service.sending.send_many(drafts))
    async with restarted(stage) as service:
        await send_all(service, topic, delay_ms=400)
        await each_comes_once(service, topic, IDS, not_before_ms=not_before_ms)


@pytest.mark.parametrize(("name", "dying_at"), [("published", of_kind(CopyKind.LEASE)), ("leased", after("lease"))])
async def test_a_crash_in_a_pull_of_many_redelivers_each_message(stage: Stage, name: str, dying_at: DyingAt) -> None:
    topic = f"bundle-pull-{name}"
    async with dying(stage) as (mortal, service):
        await send_all(service, topic)
        dying_at(mortal)
        await dies_in(mortal, pull_all(service, topic, lease_ms=1_000))
    async with restarted(stage) as service:
        await each_comes_once(service, topic, IDS, not_before_ms=0, most_attempts=2)


@pytest.mark.parametrize(
    ("name", "dying_at"),
    [("looked", after("superseded")), ("asked", before("fire")), ("released", on_way(Route.READY))],
)
async def test_a_crash_as_leases_end_redelivers_only_unacked_messages(
    stage: Stage, name: str, dying_at: DyingAt
) -> None:
    topic = f"bundle-end-{name}"
    async with dying(stage) as (mortal, service):
        await send_all(service, topic)
        pulled_ms = now_ms()
        leased = await pull_all(service, topic, lease_ms=4_000)
        dying_at(mortal)
        acked, left = leased[:4], [one.message.record.id for one in leased[4:]]
        await service.settling.ack_receipts(topic, [one.receipt for one in acked])
        await mortal.die()
    async with restarted(stage) as service:
        await each_comes_once(service, topic, left, not_before_ms=pulled_ms + 4_000, most_attempts=2)
        for one in acked:
            assert (await service.lookup.get(topic, one.message.record.id)).record.state is State.ACKED
