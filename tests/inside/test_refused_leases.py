"""Tests a message that a pull took too early: its lease is refused, and its lease copy must not bring it early."""

from __future__ import annotations

import asyncio

import pytest

from bridge.loops.checkpoint import batches
from bridge.model.values import Leased, Policy, Release
from tests.fault.api import now_ms
from tests.inside.crash import change, draft
from tests.inside.running import running
from tests.inside.stage import Stage

PATIENCE_S = 30.0


async def test_refused_lease_of_a_moved_message_does_not_bring_it_early(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "ADOPT_AFTER_ASKED", 1)
    topic = "refused-lease"
    async with running(stage) as service:
        await service.topics.put_policy(topic, Policy(release=Release.DIRECT))
        sent = (await service.sending.send(draft(topic, delay_ms=1_500))).message.record
        # Its copy reaches the ready queue at the former moment, where the first pull takes it.
        moved = await change(service, topic, sent.id, delay_ms=8_000)
        async with asyncio.timeout(PATIENCE_S):
            leased: list[Leased] = []
            while not leased:
                leased = await service.pulling.pull([topic], limit=1, wait_ms=20_000, lease_ms=500)
        assert now_ms() >= moved.record.due_ms
        assert leased[0].message.record.attempts == 1
