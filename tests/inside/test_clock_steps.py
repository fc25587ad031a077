"""Tests that a clock of Redis which is wrong for a while delays no message beyond that time, and that the watch reports
it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic
from typing import cast

import pytest

from bridge.broker.client.channel import Channel
from bridge.loops.audit import Audit
from bridge.loops.watch import Watch
from bridge.model.message import Envelope, State
from bridge.model.values import Draft, IfExists, Policy, Release
from bridge.service.pulling import lease_copies
from bridge.service.service import Service
from tests.forked_bridge import PATIENCE
from tests.inside.running import fire_answered, running
from tests.inside.stage import Stage
from tests.waiting import pause

DAY_MS, HOUR_MS = 86_400_000, 3_600_000
LEASE_MS = 5_000
PATIENCE_S = 90  # less than an hour
SOON_S = 20
TOPIC = "clock"


def set_clock(service: Service, now: int | str) -> None:
    """Sets the clock that the scripts see. An empty text: the clock of Redis."""
    object.__setattr__(service.context.records, "now", now)


async def test_message_due_while_the_clock_is_a_day_back_comes_when_the_clock_is_right(stage: Stage) -> None:
    async with running(stage, **PATIENCE) as service:
        await service.sending.send(Draft(topic=TOPIC, id="late", envelope=Envelope(body=b"1"), delay_ms=4_000))
        set_clock(service, int(service.context.store.clock.now_ms()) - DAY_MS)
        await fire_answered(service)
        set_clock(service, "")

        (leased,) = await service.pulling.pull([TOPIC], limit=1, wait_ms=30_000, lease_ms=30_000)

        assert leased.message.record.id == "late"


@pytest.mark.parametrize(("delay_ms", "nacked"), [(0, False), (1_500, False), (0, True)])
async def test_ready_message_is_pulled_while_the_clock_is_an_hour_back(
    stage: Stage, delay_ms: int, nacked: bool
) -> None:
    topic = f"{TOPIC}-ready-{delay_ms}-{nacked}"
    async with running(stage, **PATIENCE) as service:
        await service.sending.send(draft(topic, "it", delay_ms=delay_ms))
        if nacked:
            (leased,) = await service.pulling.pull([topic], limit=1, wait_ms=20_000, lease_ms=60_000)
            await service.settling.nack_leased(leased, delay_ms=0, reason=None)
        await until_ready(service, topic)
        hour_back(service)
        assert await pulled(service, topic) == ["it"]


async def test_ready_instant_waits_for_the_clock(stage: Stage) -> None:
    topic = f"{TOPIC}-ready-instant"
    async with running(stage, **PATIENCE) as service:
        await service.sending.send(draft(topic, "first"))  # declares the topic's queues
        await pulled(service, topic)
        instant_ms = int(service.context.store.clock.now_ms()) + 3_000
        await service.sending.send(draft(topic, "it", deliver_at_ms=instant_ms))
        await until_ready(service, topic)
        hour_back(service)
        assert await service.pulling.pull([topic], limit=1, wait_ms=0, lease_ms=LEASE_MS) == []
        await right(service)
        assert await pulled(service, topic) == ["it"]


@pytest.mark.parametrize("published_by", ["the process", "the next one"])
async def test_lease_that_sees_the_clock_an_hour_back_ends_in_time(
    stage: Stage, published_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_copies, "MISSING_AT_MOST_MS", 2_000)
    topic = f"{TOPIC}-{published_by.replace(' ', '-')}"
    async with running(stage, lease_copy_after=500, **PATIENCE) as service:
        await service.sending.send(Draft(topic=topic, id="it", envelope=Envelope(body=b"1")))
        assert await service.pulling.pull([topic], limit=1, wait_ms=20_000, lease_ms=LEASE_MS)
        unacked = service.settling._unacked
        if published_by == "the next one":
            for lease in unacked._leases.values():
                await lease.delivery.message.acknowledger._channel.close()  # type: ignore[attr-defined]
        hour_back(service)
        if published_by == "the next one":
            assert await service.pulling.pull([topic], limit=1, wait_ms=0, lease_ms=LEASE_MS) == []
        while unacked.count(f"ready.{topic}"):
            await pause()
        set_clock(service, "")
        async with asyncio.timeout(PATIENCE_S):
            assert await service.pulling.pull([topic], limit=1, wait_ms=80_000, lease_ms=LEASE_MS)


async def until_ready(service: Service, topic: str) -> None:
    while (await service.lookup.get(topic, "it")).record.state is not State.READY:
        await pause()


def hour_back(service: Service) -> None:
    set_clock(service, int(service.context.store.clock.now_ms()) - HOUR_MS)


async def ahead(service: Service) -> None:
    """Sets the clock two hours ahead, and lets the service hear it."""
    clock = service.context.store.clock
    before_ms = clock.now_ms()
    set_clock(service, int(before_ms) + 2 * HOUR_MS)
    async with asyncio.timeout(SOON_S):
        while clock.now_ms() < before_ms + HOUR_MS:
            await service.lookup.get_many(TOPIC, ["unknown"])


async def loops_ahead(service: Service) -> None:
    """The same, also for the loops."""
    store, records = service.loops_context.store, service.loops_context.records

    async def learn_clock(_keys: Sequence[str] = ()) -> None:
        await store.run([records.look(TOPIC, "unknown")])

    store.learn_clock = learn_clock  # type: ignore[assignment, method-assign]
    await ahead(service)
    await learn_clock()


async def right(service: Service) -> None:
    set_clock(service, "")
    await service.lookup.get_many(TOPIC, ["unknown"])


def draft(topic: str, message_id: str, **when: object) -> Draft:
    return Draft(topic=topic, id=message_id, envelope=Envelope(body=b"1"), **when)  # type: ignore[arg-type]


async def pulled(service: Service, topic: str, *, most: int = 1) -> list[str]:
    async with asyncio.timeout(SOON_S):
        leased = await service.pulling.pull([topic], limit=most, wait_ms=20_000, lease_ms=60_000)
    return [one.message.record.id for one in leased]


@pytest.mark.parametrize("release", [Release.CHECKED, Release.DIRECT])
async def test_message_that_was_sent_while_the_clock_was_ahead_comes_after_its_delay(
    stage: Stage, release: Release
) -> None:
    topic = f"{TOPIC}-ahead-{release}"
    async with running(stage, **PATIENCE) as service:
        await service.topics.put_policy(topic, Policy(release=release))
        await service.sending.send(draft(topic, "first", delay_ms=100))
        await pulled(service, topic)
        await ahead(service)
        began_s = monotonic()
        await service.sending.send(draft(topic, "it", delay_ms=1_500))
        await right(service)
        assert await pulled(service, topic) == ["it"]
        assert monotonic() - began_s >= 1.5
        if release is Release.CHECKED:
            watch = Watch(service.loops_context)
            async with asyncio.timeout(SOON_S):
                while not any("1 messages were released so" in finding.says for finding in watch.findings):
                    await watch.run_once()


async def test_messages_that_share_a_bundle_come_after_their_delays_and_not_before_an_instant(stage: Stage) -> None:
    topic = f"{TOPIC}-bundle"
    async with running(stage, **PATIENCE) as service:
        await service.sending.send(draft(topic, "first"))
        await pulled(service, topic)
        await ahead(service)
        instant_ms = int(service.context.store.clock.now_ms()) + 1_500
        began_s = monotonic()
        delays_ms = {"1": 1_500, "2": 1_600, "3": 2_900}
        drafts = [draft(topic, message_id, delay_ms=delay_ms) for message_id, delay_ms in delays_ms.items()]
        await service.sending.send_many([*drafts, draft(topic, "instant", deliver_at_ms=instant_ms)])
        await right(service)
        for _ in range(len(delays_ms)):
            # After a stall several are ready, in any order.
            (message_id,) = await pulled(service, topic)
            assert monotonic() - began_s >= delays_ms.pop(message_id) / 1_000
        assert (await service.lookup.get(topic, "instant")).record.state is State.WAITING


async def test_messages_that_share_a_bundle_come_after_their_delays_though_the_clock_was_set_ahead(
    stage: Stage,
) -> None:
    topic = f"{TOPIC}-bundle-ahead"
    async with running(stage, **PATIENCE) as service:
        began_s = monotonic()
        delays_ms = {"1": 2_100, "2": 2_900, "3": 3_900}
        await service.sending.send_many([draft(topic, one, delay_ms=delay_ms) for one, delay_ms in delays_ms.items()])
        set_clock(service, int(service.context.store.clock.now_ms()) + 2 * HOUR_MS)
        clock = service.loops_context.store.clock
        clock.heard(int(clock.now_ms()) - 2 * HOUR_MS, monotonic(), monotonic())
        await service.loops_context.store.learn_clock()  # notes a step ahead
        right_ms = clock.now_ms
        clock.now_ms = lambda: right_ms() + 2 * HOUR_MS  # type: ignore[method-assign]
        while delays_ms:
            for message_id in await pulled(service, topic):
                assert monotonic() - began_s >= delays_ms.pop(message_id) / 1_000


async def test_audit_sends_no_delayed_message_again_though_the_clock_was_set_ahead(stage: Stage) -> None:
    topic = f"{TOPIC}-audit"
    async with running(stage, audit_grace=100, audit_every=0, **PATIENCE) as service:
        audit = Audit(service.loops_context)
        instant_ms = int(service.context.store.clock.now_ms()) + HOUR_MS
        await service.sending.send(draft(topic, "delayed", delay_ms=HOUR_MS))
        await service.sending.send(draft(topic, "instant", deliver_at_ms=instant_ms))
        await service.sending.send(draft(topic, "leased"))
        assert await pulled(service, topic) == ["leased"]
        await loops_ahead(service)
        while (done := await audit.run_once()) is None or not done.last:
            await pause()
        assert [one.record.id for one in done.found if one.record.topic == topic] == ["instant"]


@pytest.mark.parametrize("after_ms", [0, 500], ids=["with its lease copy", "unacknowledged"])
async def test_lease_that_began_while_the_clock_was_ahead_ends_in_time(stage: Stage, after_ms: int) -> None:
    topic = f"{TOPIC}-lease-{after_ms}"
    async with running(stage, lease_copy_after=after_ms, **PATIENCE) as service:
        await service.sending.send(draft(topic, "it"))
        await ahead(service)
        began_s = monotonic()
        assert await service.pulling.pull([topic], limit=1, wait_ms=20_000, lease_ms=2_000)
        await right(service)
        assert await pulled(service, topic) == ["it"]
        assert monotonic() - began_s >= 2


@pytest.mark.parametrize("extended", ["while the clock is ahead", "after the clock is right"])
async def test_lease_that_was_extended_beside_a_step_lasts_for_the_extension(stage: Stage, extended: str) -> None:
    topic = f"{TOPIC}-extended-{extended[:5]}"
    async with running(stage, lease_copy_after=0, **PATIENCE) as service:
        await service.sending.send(draft(topic, "it"))
        if extended.startswith("after"):
            await ahead(service)
        assert await service.pulling.pull([topic], limit=1, wait_ms=20_000, lease_ms=1_500)
        if extended.startswith("after"):
            await right(service)
        else:
            await ahead(service)
        began_s = monotonic()
        await service.settling.extend(topic, "it", receipt=None, lease_ms=2_500)
        await right(service)
        assert await pulled(service, topic) == ["it"]
        assert monotonic() - began_s >= 2.5


async def test_message_that_was_extended_while_the_clock_was_ahead_comes_after_its_delay(stage: Stage) -> None:
    topic = f"{TOPIC}-upsert"
    async with running(stage, **PATIENCE) as service:
        await service.sending.send(draft(topic, "first"))
        await pulled(service, topic)
        await ahead(service)
        await service.sending.send(draft(topic, "it", delay_ms=1_000))
        began_s = monotonic()
        later = draft(topic, "it", delay_ms=2_500, max_wait_ms=HOUR_MS, if_exists=IfExists.EXTEND)
        await service.upserting.send(replace(later, envelope=Envelope(body=b"2")))
        await right(service)
        assert await pulled(service, topic) == ["it"]
        assert monotonic() - began_s >= 2.5


async def extended_ahead(service: Service, topic: str, *, copies: int, lease_ms: int, extended_ms: int) -> float:
    """Sends messages, leases them together while the clock is ahead, and extends each lease. Returns a moment just
    before the first lease, in s of `monotonic()`. The clock stands still meanwhile, so for the scripts a lease and its
    extension begin at one moment."""
    ids = [f"{at}" for at in range(copies)]
    await service.sending.send_many([draft(topic, message_id) for message_id in ids])
    await ahead(service)
    began_s = monotonic()
    left = copies
    while left:
        left -= len(await service.pulling.pull([topic], limit=left, wait_ms=20_000, lease_ms=lease_ms))
    for message_id in ids:
        await service.settling.extend(topic, message_id, receipt=None, lease_ms=extended_ms)
    return began_s


async def all_pulled(service: Service, topic: str, *, copies: int) -> float:
    """Pulls so many messages. Returns when the last one came, in s of `monotonic()`."""
    left = copies
    while left:
        left -= len(await pulled(service, topic, most=left))
    return monotonic()


@pytest.mark.parametrize("copies", [1, 3], ids=["alone", "in a bundle"])
async def test_lease_whose_copy_was_held_while_the_clock_was_ahead_ends_in_time(stage: Stage, copies: int) -> None:
    topic = f"{TOPIC}-held-{copies}"
    async with running(stage, lease_copy_after=0, **PATIENCE) as service:
        began_s = await extended_ahead(service, topic, copies=copies, lease_ms=2_000, extended_ms=7_000)
        await fire_answered(service)
        await pause(0.5)
        await right(service)
        assert 7 <= await all_pulled(service, topic, copies=copies) - began_s < SOON_S


async def test_lease_whose_process_died_while_the_clock_was_ahead_ends_in_time(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_copies, "MISSING_AT_MOST_MS", 1_000)
    topic = f"{TOPIC}-died"
    async with running(stage, lease_copy_after=500, **PATIENCE) as service:
        await service.sending.send(draft(topic, "it"))
        await ahead(service)
        began_s = monotonic()
        assert await service.pulling.pull([topic], limit=1, wait_ms=20_000, lease_ms=6_000)
        for lease in service.settling._unacked._leases.values():
            await cast(Channel, lease.delivery.message.acknowledger._channel).close()
        assert await service.pulling.pull([topic], limit=1, wait_ms=500, lease_ms=LEASE_MS) == []
        await fire_answered(service)
        await pause(0.5)
        await right(service)
        assert await pulled(service, topic) == ["it"]
        assert 6 <= monotonic() - began_s < 10


async def test_message_that_was_sent_and_leased_while_the_clock_was_ahead_can_be_extended(stage: Stage) -> None:
    topic = f"{TOPIC}-sent-and-extended"
    async with running(stage, lease_copy_after=0, **PATIENCE) as service:
        await service.sending.send(draft(topic, "first"))  # a connection that opens later shows the true clock
        await pulled(service, topic)
        await ahead(service)
        await service.sending.send(draft(topic, "it"))
        assert await service.pulling.pull([topic], limit=1, wait_ms=20_000, lease_ms=2_000)
        await right(service)
        began_s = monotonic()
        await service.settling.extend(topic, "it", receipt=None, lease_ms=3_000)
        assert await pulled(service, topic) == ["it"]
        assert monotonic() - began_s >= 3


async def test_retry_that_was_asked_for_while_the_clock_was_ahead_comes_after_its_delay(stage: Stage) -> None:
    topic = f"{TOPIC}-nack"
    async with running(stage, **PATIENCE) as service:
        await service.sending.send(draft(topic, "it"))
        (leased,) = await service.pulling.pull([topic], limit=1, wait_ms=20_000, lease_ms=LEASE_MS)
        await ahead(service)
        began_s = monotonic()
        await service.settling.nack_leased(leased, delay_ms=1_500, reason=None)
        await right(service)
        assert await pulled(service, topic) == ["it"]
        assert monotonic() - began_s >= 1.5


async def test_message_that_was_released_while_the_clock_was_ahead_can_be_pulled_soon(stage: Stage) -> None:
    topic = f"{TOPIC}-released"
    async with running(stage, **PATIENCE) as service:
        await service.sending.send(draft(topic, "first", delay_ms=100))
        await pulled(service, topic)
        await ahead(service)
        await service.sending.send(draft(topic, "it"))
        await until_ready(service, topic)
        await right(service)
        assert await pulled(service, topic) == ["it"]


@pytest.mark.parametrize(("step_ms", "direction"), [(-3_600_000, "back"), (3_600_000, "ahead")])
async def test_watch_reports_a_step_of_the_clock(stage: Stage, step_ms: int, direction: str) -> None:
    async with running(stage, verify_every=0, **PATIENCE) as service:
        await service.lookup.get_many(TOPIC, ["unknown"])
        set_clock(service, int(service.context.store.clock.now_ms()) + step_ms)
        await service.lookup.get_many(TOPIC, ["unknown"])
        watch = Watch(service.loops_context)
        await watch.run_once()
    # Other commands saw the true clock meanwhile, so there are steps in both directions, and perhaps several.
    # What is reported is the least step that explains the answers. A pause between them makes it smaller.
    found = [finding for finding in watch.findings if re.search(rf"set {direction} by 3,(600|59\d) s", finding.says)]
    assert {finding.severity for finding in found} == {"warning"}
