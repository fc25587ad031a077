"""Tests that a clock of Redis which is wrong for a while delays no message beyond that time."""

from __future__ import annotations

from bridge.model.message import Envelope
from bridge.model.values import Draft
from bridge.service.service import Service
from tests.fault.inside import fire_answered, running
from tests.fault.stage import Stage

DAY_MS = 86_400_000
TOPIC = "clock"


def set_clock(service: Service, now: int | str) -> None:
    """Sets the clock that the scripts see. An empty text: the clock of Redis."""
    object.__setattr__(service.context.records, "now", now)


async def test_message_due_while_the_clock_is_a_day_back_comes_when_the_clock_is_right(stage: Stage) -> None:
    async with running(stage) as service:
        await service.sending.send(Draft(topic=TOPIC, id="late", envelope=Envelope(body=b"1"), delay_ms=2_000))
        set_clock(service, int(service.context.store.clock.now_ms()) - DAY_MS)
        await fire_answered(service)
        set_clock(service, "")

        (leased,) = await service.pulling.pull([TOPIC], limit=1, wait_ms=30_000, lease_ms=30_000)

        assert leased.message.record.id == "late"
