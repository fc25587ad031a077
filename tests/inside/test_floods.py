"""Tests that a flood of one topic at the checkpoint does not hold up another topic."""

from __future__ import annotations

import asyncio

import pytest

from bridge.loops.checkpoint.flight import AT_ONCE
from bridge.model.message import Envelope
from bridge.model.values import Draft
from bridge.service.service import Service
from tests.fault.api import now_ms
from tests.forked_bridge import PATIENCE
from tests.inside.running import Gate, running
from tests.inside.stage import Stage
from tests.waiting import pause

BATCH = 50
PATIENCE_S = 60.0


@pytest.mark.parametrize(("bundles", "flood"), [(False, 1_000), (True, 3_000)])
async def test_message_overtakes_another_topics_flood_that_was_read_before_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, bundles: bool, flood: int
) -> None:
    flooded, other = (f"{name}-{bundles}" for name in ("flood", "other"))
    async with running(stage, checkpoint_batch=BATCH, bundles=bundles, **PATIENCE) as service:
        # The gate blocks every batch, so the checkpoint reads the whole flood before it releases a message.
        gate = Gate(monkeypatch)
        flood_due_ms = now_ms() + 8_000
        await send(service, flooded, flood, flood_due_ms)
        await send(service, other, 1, flood_due_ms + 2_000)
        async with asyncio.timeout(PATIENCE_S):
            await gate.reached.wait()
            while gate.read(flooded) < flood or not gate.read(other):
                await pause()
            while not gate.is_due(other):
                await pause()
            in_flight, taken = gate.begun, len(gate.taken)
            gate.open()
            while gate.done <= flood:
                await pause()
    assert in_flight == AT_ONCE
    # The other topic's message is in what is taken first after the batches in flight.
    assert other in gate.taken[taken]


async def send(service: Service, topic: str, count: int, due_ms: int) -> None:
    drafts = [
        Draft(topic=topic, id=f"{topic}-{number}", envelope=Envelope(body=b"0"), deliver_at_ms=due_ms)
        for number in range(count)
    ]
    sent = await service.sending.send_many(drafts)
    assert not [one for one in sent if isinstance(one, Exception)]
