"""Tests that a clock of Redis which is wrong for a while delays no message beyond that time, and that the watch reports
it."""

from __future__ import annotations

import asyncio
import re

import pytest

from bridge.loops.watch import Watch
from bridge.model.message import Envelope, State
from bridge.model.values import Draft
from bridge.service import lease_copies
from bridge.service.service import Service
from tests.fault.inside import fire_answered, running
from tests.fault.stage import Stage
from tests.waiting import pause

DAY_MS, HOUR_MS = 86_400_000, 3_600_000
LEASE_MS = 5_000
PATIENCE_S = 90  # less than an hour
TOPIC = "clock"


def set_clock(service: Service, now: int | str) -> None:
    """Sets the clock that the scripts see. An empty text: the clock of Redis."""
    object.__setattr__(service.context.records, "now", now)


async def test_message_due_while_the_clock_is_a_day_back_comes_when_the_clock_is_right(stage: Stage) -> None:
    async with running(stage) as service:
        await service.sending.send(Draft(topic=TOPIC, id="late", envelope=Envelope(body=b"1"), delay_ms=4_000))
        set_clock(service, int(service.context.store.clock.now_ms()) - DAY_MS)
        await fire_answered(service)
        set_clock(service, "")

        (leased,) = await service.pulling.pull([TOPIC], limit=1, wait_ms=30_000, lease_ms=30_000)

        assert leased.message.record.id == "late"


async def test_ready_message_that_is_pulled_while_the_clock_is_an_hour_back_comes_when_the_clock_is_right(
    stage: Stage,
) -> None:
    topic = f"{TOPIC}-ready"
    async with running(stage) as service:
        await service.sending.send(Draft(topic=topic, id="it", envelope=Envelope(body=b"1")))
        (leased,) = await service.pulling.pull([topic], limit=1, wait_ms=20_000, lease_ms=LEASE_MS)
        await service.settling.nack_leased(leased, delay_ms=0, reason=None)
        while (await service.lookup.get(topic, "it")).record.state is not State.READY:
            await pause()
        set_clock(service, int(service.context.store.clock.now_ms()) - HOUR_MS)
        assert await service.pulling.pull([topic], limit=1, wait_ms=0, lease_ms=LEASE_MS) == []
        set_clock(service, "")
        async with asyncio.timeout(PATIENCE_S):
            assert await service.pulling.pull([topic], limit=1, wait_ms=80_000, lease_ms=LEASE_MS)


@pytest.mark.parametrize("published_by", ["the process", "the next one"])
async def test_lease_that_sees_the_clock_an_hour_back_ends_in_time(
    stage: Stage, published_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_copies, "MISSING_AT_MOST_MS", 2_000)
    topic = f"{TOPIC}-{published_by.replace(' ', '-')}"
    async with running(stage, lease_copy_after=500) as service:
        await service.sending.send(Draft(topic=topic, id="it", envelope=Envelope(body=b"1")))
        assert await service.pulling.pull([topic], limit=1, wait_ms=20_000, lease_ms=LEASE_MS)
        unacked = service.settling._unacked
        if published_by == "the next one":
            for lease in unacked._leases.values():
                await lease.delivery.message.channel.close()
        set_clock(service, int(service.context.store.clock.now_ms()) - HOUR_MS)
        if published_by == "the next one":
            assert await service.pulling.pull([topic], limit=1, wait_ms=0, lease_ms=LEASE_MS) == []
        while unacked.count(f"ready.{topic}"):
            await pause()
        set_clock(service, "")
        async with asyncio.timeout(PATIENCE_S):
            assert await service.pulling.pull([topic], limit=1, wait_ms=80_000, lease_ms=LEASE_MS)


@pytest.mark.parametrize(("step_ms", "direction"), [(-3_600_000, "back"), (3_600_000, "ahead")])
async def test_watch_reports_a_step_of_the_clock(stage: Stage, step_ms: int, direction: str) -> None:
    async with running(stage, verify_every=0) as service:
        await service.lookup.get_many(TOPIC, ["unknown"])
        set_clock(service, int(service.context.store.clock.now_ms()) + step_ms)
        await service.lookup.get_many(TOPIC, ["unknown"])
        watch = Watch(service.loops_context)
        await watch.run_once()
    # Other commands saw the true clock meanwhile, so there are steps in both directions.
    # What is reported is the least step that explains the answers. A pause between them makes it smaller.
    found = [finding for finding in watch.findings if re.search(rf"set {direction} by 3,(600|59\d) s", finding.says)]
    assert [finding.severity for finding in found] == ["warning"]
