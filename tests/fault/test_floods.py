"""A flood of one topic at the checkpoint, and a message of another topic behind it."""

from __future__ import annotations

import asyncio

import pytest

from bridge.loops.checkpoint.flight import AT_ONCE
from bridge.model.message import Envelope
from bridge.model.values import Draft
from bridge.service.service import Service
from tests.fault.api import now_ms
from tests.fault.inside import Gate, running
from tests.fault.stage import Stage

BATCH = 50
PATIENCE_S = 60.0


@pytest.mark.parametrize(("bundles", "flood"), [(False, 1_000), (True, 3_000)])
async def test_a_message_overtakes_another_topics_flood_that_was_read_before_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, bundles: bool, flood: int
) -> None:
    flooded, other = (f"{name}-{bundles}" for name in ("flood", "other"))
    async with running(stage, checkpoint_batch=BATCH, bundles=bundles) as service:
        # What is due waits from here on, so all of the flood is read before any is released.
        gate = Gate(monkeypatch)
        flood_due_ms = now_ms() + 8_000
        other_due_ms = flood_due_ms + 300
        await send(service, flooded, flood, flood_due_ms)
        await send(service, other, 1, other_due_ms)
        async with asyncio.timeout(PATIENCE_S):
            await gate.reached.wait()
            while (
                not await asyncio.to_thread(all_is_read, stage) or service.context.store.clock.now_ms() <= other_due_ms
            ):
                pass
            under_way = len(gate.begun)
            gate.open()
            while not await asyncio.to_thread(all_is_released, stage):
                pass
    assert under_way == AT_ONCE
    # In the first batch that is begun after those under way.
    assert [at for at, ids in enumerate(gate.begun) if f"{other}-0" in ids] == [under_way]


async def send(service: Service, topic: str, count: int, due_ms: int) -> None:
    drafts = [
        Draft(topic=topic, id=f"{topic}-{number}", envelope=Envelope(body=b"0"), deliver_at_ms=due_ms)
        for number in range(count)
    ]
    sent = await service.sending.send_many(drafts)
    assert not [one for one in sent if isinstance(one, Exception)]


def all_is_read(stage: Stage) -> bool:
    """Whether all that is delayed stands before the checkpoint, and was delivered to it."""
    of_each = delayed(stage)
    standing, read = of_each["delay.checkpoint"]
    return read > 1 and read == standing == sum(messages for messages, _ in of_each.values())


def all_is_released(stage: Stage) -> bool:
    return not any(messages for messages, _ in delayed(stage).values())


def delayed(stage: Stage) -> dict[str, tuple[int, int]]:
    """How many messages stand in each queue of the wheel and in the checkpoint's, and how many of them were read."""
    columns = ("name", "messages", "messages_unacknowledged")
    lines = [line.split() for line in stage.rabbit.ctl("list_queues", *columns, "--no-table-headers").splitlines()]
    return {name: (int(messages), int(read)) for name, messages, read in lines if name.startswith("delay.")}
