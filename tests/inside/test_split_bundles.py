"""Tests bundles whose copies are due at different moments, of which some are parked again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from bridge.broker.copies.bundles import Entry
from bridge.broker.copy_publisher import CopyPublisher
from bridge.loops.checkpoint.batches import Batches, Done
from bridge.loops.checkpoint.cases import Item
from bridge.model.errors import BrokerUnavailable, NotPublished
from bridge.model.message import CopyKind, Envelope
from bridge.model.values import Draft
from bridge.service.service import Service
from tests.fault.api import now_ms
from tests.forked_bridge import PATIENCE
from tests.inside.crash import Mortal, dying, restarted
from tests.inside.running import running
from tests.inside.stage import Stage
from tests.inside.test_crash_in_bundles import each_comes_once
from tests.inside.test_removed_topics import exists
from tests.inside.test_unpacked_bundles import ready_queue, take_id

PATIENCE_S = 30.0
IDS = [f"m-{at}" for at in range(7)]
DELAYS_MS = [4_000 + 600 * at for at in range(len(IDS))]  # of one octave, so they share a bundle; the last four are far

Parked = list[BrokerUnavailable | None]
Park = Callable[[str, CopyKind, Sequence[tuple[Entry, float]]], Awaitable[Parked]]


async def send_all(service: Service, topic: str) -> dict[str, int]:
    """Sends one bundle. Returns the due moment of each message, in Unix ms."""
    drafts = [
        Draft(topic=topic, id=one, envelope=Envelope(body=one.encode()), delay_ms=delay_ms)
        for one, delay_ms in zip(IDS, DELAYS_MS, strict=True)
    ]
    due_ms: dict[str, int] = {}
    for result in await service.sending.send_many(drafts):
        assert not isinstance(result, Exception)
        due_ms[result.message.record.id] = result.message.record.due_ms
    return due_ms


def replace_parking(ways: CopyPublisher, replaced: Callable[[Park], Park]) -> None:
    ways.park_again = replaced(ways.park_again)  # type: ignore[assignment, method-assign]


def dies_in_parking(mortal: Mortal, *, published: bool) -> None:
    """Lets the process die as it parks copies again: before it publishes them, or before it
    acknowledges their bundle."""

    def stopping(park: Park) -> Park:
        async def parking(topic: str, kind: CopyKind, entries: Sequence[tuple[Entry, float]]) -> Parked:
            if published:
                assert set(await park(topic, kind, entries)) == {None}
            mortal.reached.set()
            await asyncio.Event().wait()
            raise AssertionError("unreachable")

        return parking

    replace_parking(mortal.service.context.broker.releases, stopping)


@pytest.mark.parametrize("published", [False, True])
async def test_a_crash_as_copies_are_parked_again_delivers_each_message_once(stage: Stage, *, published: bool) -> None:
    topic = f"split-crash-{published}".lower()
    async with dying(stage) as (mortal, service):
        due_ms = await send_all(service, topic)
        dies_in_parking(mortal, published=published)
        await mortal.die()
    async with restarted(stage) as service:
        await each_comes_once(service, topic, IDS, not_before_ms=min(due_ms.values()))


async def test_copies_that_can_not_be_parked_are_tried_again_and_come_once(stage: Stage) -> None:
    topic, tries = "split-refused", 0

    def failing_twice(park: Park) -> Park:
        async def parking(topic: str, kind: CopyKind, entries: Sequence[tuple[Entry, float]]) -> Parked:
            nonlocal tries
            tries += 1
            if tries > 2:
                return await park(topic, kind, entries)
            parked = await park(topic, kind, entries[tries:])
            return [*(NotPublished("an injected fault") for _ in entries[:tries]), *parked]

        return parking

    async with running(stage, **PATIENCE) as service, ready_queue(stage, service, topic) as (channel, ready):
        replace_parking(service.context.broker.releases, failing_twice)
        due_ms = await send_all(service, topic)
        async with asyncio.timeout(PATIENCE_S):
            came: list[str] = []
            while len(came) < len(IDS):
                came.append(await take_id(ready))
                assert now_ms() >= due_ms[came[-1]]
        assert sorted(came) == IDS  # those that were tried again may be late
        assert tries > 2
        await service.stop()
        for queue in ("delay.checkpoint", ready.name):
            left = await channel.declare_queue(queue, passive=True)
            assert left.declaration_result.message_count == 0


async def test_copies_count_as_parked_once_a_new_slot_has_settled(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that is killed forgets a queue that is younger."""
    asked, settled = asyncio.Event(), asyncio.Event()
    async with running(stage, **PATIENCE) as service:

        async def settling(*_: object, **__: object) -> None:
            asked.set()
            await settled.wait()

        monkeypatch.setattr(service.context.broker.declared, "settled", settling)
        entry = Entry(now_ms() + 3_600_000, b"an entry")
        parking = asyncio.create_task(
            service.context.broker.releases.park_again("split-settled", CopyKind.CHECKED, [(entry, 3_600_000.0)])
        )
        async with asyncio.timeout(PATIENCE_S):
            await asked.wait()
            assert not parking.done()
            settled.set()
            assert await parking == [None]
        monkeypatch.undo()


async def test_stopping_bridge_parks_what_is_left_of_an_opened_bundle(stage: Stage) -> None:
    """The next bridge delivers the rest in time, and no message twice."""
    topic = "split-stopped"
    async with running(stage, **PATIENCE) as service, ready_queue(stage, service, topic) as (channel, ready):
        due_ms = await send_all(service, topic)
        async with asyncio.timeout(PATIENCE_S):
            first = await take_id(ready)
            await service.stop()
        # Some of the copies may have come back already. The opened bundle had all of them.
        checkpoint = await channel.get_queue("delay.checkpoint", ensure=False)
        back = []
        while (message := await checkpoint.get(fail=False)) is not None:
            assert message.headers.get("x-delay-bundle") != len(IDS)
            back.append(message)
        for message in back:
            await message.nack()
        async with running(stage, **PATIENCE), asyncio.timeout(PATIENCE_S):
            came = [first]
            while len(came) < len(IDS):
                came.append(await take_id(ready))
                assert now_ms() >= due_ms[came[-1]]
        assert sorted(came) == IDS
        left = await channel.declare_queue(ready.name, passive=True)
        assert left.declaration_result.message_count == 0


async def test_copies_of_a_removed_topic_do_not_bring_it_back(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, handled, all_handled = "split-removed", set[str](), asyncio.Event()
    process = Batches.process

    async def noting(batches: Batches, items: Sequence[Item]) -> Done:
        done = await process(batches, items)
        handled.update(item.copy.id for item in items)
        if handled.issuperset(IDS):
            all_handled.set()
        return done

    monkeypatch.setattr(Batches, "process", noting)
    async with running(stage, **PATIENCE) as service:
        await send_all(service, topic)
        await service.topics.remove(topic, force=True)
        async with asyncio.timeout(PATIENCE_S):
            await all_handled.wait()
        assert not await exists(service, topic)


async def test_bundle_that_comes_after_bundles_were_switched_off_brings_no_message_early(stage: Stage) -> None:
    topic = "switched-off"
    async with running(stage, **PATIENCE) as service:
        due_ms = await send_all(service, topic)
    async with running(stage, bundles=False, **PATIENCE) as service, asyncio.timeout(PATIENCE_S):
        while due_ms:
            (leased,) = await service.pulling.pull([topic], limit=1, wait_ms=20_000, lease_ms=60_000)
            assert now_ms() >= due_ms.pop(leased.message.record.id)
