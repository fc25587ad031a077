"""Tests that a service stops at once: a replay of many ends between two groups, and a lost connection ends no stop."""

from __future__ import annotations

import asyncio

import pytest

from bridge.broker.client.consumer import Consumer
from bridge.broker.ready.taken import Taken
from bridge.broker.ready.taker import Taker
from bridge.model.errors import BrokerUnavailable, Stopping
from bridge.model.message import Envelope
from bridge.model.values import Draft
from tests.inside.running import Gate, running
from tests.inside.stage import Stage


async def test_a_replay_of_many_ends_between_two_groups_when_its_bridge_drains(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(stage) as service:
        ids = [f"letter-{number}" for number in range(150)]  # more than one group
        for message_id in ids:
            await service.sending.send(Draft(topic="swept", id=message_id, envelope=Envelope(body=b"1"), max_retry=0))
        while await service.dead.size("swept") < len(ids):
            for leased in await service.pulling.pull(["swept"], limit=100, wait_ms=1_000, lease_ms=30_000):
                await service.settling.nack_leased(leased, delay_ms=0, reason=None)
        take = Taker.take

        async def drained(taker: Taker, queue: str, most: int) -> list[Taken]:
            service.drain()
            return await take(taker, queue, most)

        with monkeypatch.context() as while_draining:
            while_draining.setattr(Taker, "take", drained)
            with pytest.raises(Stopping):
                await service.dead.replay_many("swept", len(ids))
        left = await service.dead.size("swept")
        assert 0 < left < len(ids)
    async with running(stage) as other:
        assert await other.dead.replay_many("swept", len(ids)) == left


async def test_stop_ends_when_a_lost_connection_takes_the_place_of_its_cancel(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def lost(consumer: Consumer) -> None:
        # As a library may do for a call whose connection is lost at the moment of the cancel.
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise BrokerUnavailable("the connection was lost") from None

    async with running(stage, grace=100) as service:
        gate = Gate(monkeypatch)  # never opened, so a batch stays in flight
        await service.sending.send(Draft(topic="lost", id="it", envelope=Envelope(body=b"1"), delay_ms=2_000))
        async with asyncio.timeout(30):
            await gate.reached.wait()
            monkeypatch.setattr(Consumer, "stop", lost)
            await service.stop()
    assert asked.is_set()
