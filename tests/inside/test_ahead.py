"""Tests messages between the question to Redis, which comes ahead of the due moment, and their release."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bridge.broker import publications
from bridge.loops.checkpoint import batches, moments
from bridge.model.durations import format_instant
from bridge.model.errors import Conflict
from bridge.model.message import State
from bridge.model.values import IfExists
from bridge.service.sending import replacing
from bridge.service.service import Service
from bridge.store.messages import records
from tests.fault.api import now_ms
from tests.forked_bridge import PATIENCE
from tests.inside.crash import draft
from tests.inside.running import fire_answered, running
from tests.inside.stage import Stage
from tests.inside.test_unpacked_bundles import ready_queue, take_id
from tests.waiting import pause

PATIENCE_S = 30.0


@pytest.fixture(autouse=True)
def _seconds_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies arrive three seconds ahead, and Redis is asked as soon as they do."""
    monkeypatch.setattr(publications, "LEAD_MS", 3_000)
    monkeypatch.setattr(records, "AHEAD_MS", 3_000)
    monkeypatch.setattr(moments, "AHEAD_MS", 3_000)
    monkeypatch.setattr(batches, "AHEAD_MS", 3_000)
    monkeypatch.setattr(replacing, "AHEAD_MS", 3_000)


async def test_message_asked_about_ahead_is_released_at_its_moment_and_its_delete_is_too_late(stage: Stage) -> None:
    topic = "ahead-refused"
    async with running(stage, **PATIENCE) as service, ready_queue(stage, service, topic) as (_, ready):
        sent = (await service.sending.send(draft(topic, delay_ms=5_000))).message.record
        async with asyncio.timeout(PATIENCE_S):
            await fire_answered(service)
            with pytest.raises(Conflict, match=f"too late: .* {format_instant(sent.due_ms)}") as refused:
                await service.changing.delete(topic, sent.id, release=False)
            assert refused.value.state == "ready"
            assert now_ms() < sent.due_ms
            assert await take_id(ready) == sent.id
        assert now_ms() >= sent.due_ms


async def test_delete_that_waits_is_done_at_the_moment_and_no_pull_gets_the_message(stage: Stage) -> None:
    topic = "ahead-waiting"
    async with running(stage, **PATIENCE) as service:
        sent = (await service.sending.send(draft(topic, delay_ms=5_000))).message.record
        async with asyncio.timeout(PATIENCE_S):
            await fire_answered(service)
            deleted = await service.changing.delete(topic, sent.id, release=True, waits=True)
        assert now_ms() >= sent.due_ms
        assert deleted.record.state is State.DELETED
        assert await service.pulling.pull([topic], limit=1, wait_ms=1_500, lease_ms=30_000) == []


async def until_ready(service: Service, topic: str, message_id: str) -> None:
    while (await service.lookup.get(topic, message_id)).record.state is not State.READY:
        await pause()


@pytest.mark.parametrize("asked", ["before the replacement", "while it is published"])
async def test_message_asked_about_ahead_is_not_replaced_before_its_moment(stage: Stage, asked: str) -> None:
    topic = f"ahead-replaced-{asked.split(maxsplit=1)[0]}"
    async with running(stage, **PATIENCE) as service, ready_queue(stage, service, topic) as (_, ready):
        sent = (await service.sending.send(draft(topic, delay_ms=5_000))).message.record
        other = replace(draft(topic, delay_ms=5_000), id=sent.id, if_exists=IfExists.REPLACE)
        async with asyncio.timeout(PATIENCE_S):
            await until_ready(service, topic, sent.id)
            looked_up_before = service.replacing.replace(sent, other)
            call = service.upserting.send(other) if asked == "before the replacement" else looked_up_before
            with pytest.raises(Conflict, match=f"too late: .* {format_instant(sent.due_ms)}"):
                await call
            looked_up_before.close()
            assert now_ms() < sent.due_ms
            assert await take_id(ready) == sent.id
        assert now_ms() >= sent.due_ms
        assert (await service.lookup.get(topic, sent.id)).record.created_ms == sent.created_ms


async def test_replacement_that_waits_is_made_at_the_moment(stage: Stage) -> None:
    topic = "ahead-replacing"
    async with running(stage, **PATIENCE) as service:
        sent = (await service.sending.send(draft(topic, delay_ms=5_000))).message.record
        async with asyncio.timeout(PATIENCE_S):
            await until_ready(service, topic, sent.id)
            put = await service.replacing.put(replace(draft(topic, delay_ms=60_000), id=sent.id), waits=True)
        assert now_ms() >= sent.due_ms
        assert put.changed
        assert await service.pulling.pull([topic], limit=1, wait_ms=1_500, lease_ms=30_000) == []


async def test_lease_is_kept_until_its_end(stage: Stage) -> None:
    topic = "ahead-leased"
    async with running(stage, **PATIENCE) as service:
        await service.sending.send(draft(topic))
        async with asyncio.timeout(PATIENCE_S):
            (leased,) = await service.pulling.pull([topic], limit=1, wait_ms=20_000, lease_ms=4_000)
            (again,) = await service.pulling.pull([topic], limit=1, wait_ms=20_000, lease_ms=30_000)
        assert now_ms() >= leased.message.record.lease_until_ms
        assert again.message.record.attempts == 2
