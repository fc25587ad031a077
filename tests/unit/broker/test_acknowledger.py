"""Tests that acks are written in order, and before their channel closes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.broker.client import acknowledger as module
from bridge.broker.client import frames
from bridge.broker.client.acknowledger import Acknowledger


async def test_waiting_ack_is_written_before_a_later_one() -> None:
    written: asyncio.Queue[Any] = asyncio.Queue(1)
    channel = channel_with(written)
    acknowledger = Acknowledger(channel)
    for tag in (1, 2, 3):
        acknowledger.delivered(tag)
    await acknowledger.ack([1])
    waiting = asyncio.create_task(acknowledger.ack([2]))
    await asyncio.sleep(0)
    payloads = [written.get_nowait().payload]
    rest = asyncio.create_task(_two(written))
    # The queue has room now, and the waiting ack has not noticed it yet.
    await acknowledger.ack([3])
    await waiting
    assert payloads + await rest == [frames.acks(1, tag, ()) for tag in (1, 2, 3)]


async def test_retired_channel_closes_after_its_last_ack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PASSED_ON_AFTER_S", 0.0)
    written: asyncio.Queue[Any] = asyncio.Queue(1)
    channel = channel_with(written)
    closed = asyncio.Event()

    async def close() -> None:
        closed.set()

    acknowledger = Acknowledger(channel)
    for tag in (1, 2):
        acknowledger.delivered(tag)
    await acknowledger.ack([1])
    waiting = asyncio.create_task(acknowledger.ack([2]))
    await asyncio.sleep(0)
    # Every delivery is acknowledged, and the last ack waits for room in the queue.
    acknowledger.retire(close)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not closed.is_set()
    written.get_nowait()
    await waiting
    await closed.wait()


def channel_with(written: asyncio.Queue[Any]) -> Any:
    open_channel = {"is_closed": False, "_Channel__close_event": asyncio.Event()}
    return SimpleNamespace(number=1, write_queue=written, **open_channel)


async def _two(written: asyncio.Queue[Any]) -> list[bytes]:
    return [(await written.get()).payload, (await written.get()).payload]
