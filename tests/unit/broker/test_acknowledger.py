"""Tests that a channel closes after its last ack."""

from __future__ import annotations

import asyncio

import pytest

from bridge.broker.client import acknowledger as module
from bridge.broker.client import frames
from bridge.broker.client.acknowledger import Acknowledger
from tests.unit.broker.wire import Wire


async def test_retired_channel_closes_once_all_its_deliveries_are_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PASSED_ON_AFTER_S", 0.0)
    wire = Wire()
    channel = wire.channel()
    acknowledger = Acknowledger(channel)
    closed = asyncio.Event()

    async def close() -> None:
        closed.set()

    for tag in (1, 2):
        acknowledger.delivered(tag)
    acknowledger.ack([1])
    acknowledger.retire(close)
    await asyncio.sleep(0.001)
    assert not closed.is_set()

    acknowledger.ack([2])
    await closed.wait()

    assert bytes(wire.written) == frames.acks(1, 1, ()) + frames.acks(1, 2, ())
