"""The order in which acknowledgements are written."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.broker.client import acknowledger as module
from bridge.broker.client import frames
from bridge.broker.client.acknowledger import Acknowledger


async def test_an_acknowledgement_that_waits_to_be_written_is_passed_by_no_later_one() -> None:
    written: asyncio.Queue[Any] = asyncio.Queue(1)
    channel: Any = SimpleNamespace(number=1, is_closed=False, write_queue=written)
    acknowledging = Acknowledger(channel)
    for tag in (1, 2, 3):
        acknowledging.delivered(tag)
    await acknowledging.ack([1])
    waiting = asyncio.create_task(acknowledging.ack([2]))
    await asyncio.sleep(0)
    told = [written.get_nowait().payload]
    rest = asyncio.create_task(_two(written))
    # There is room now, which the one that waits for it has not noticed yet.
    await acknowledging.ack([3])
    await waiting
    assert told + await rest == [frames.acks(1, tag, ()) for tag in (1, 2, 3)]


async def test_a_retired_channel_is_closed_after_the_last_acknowledgement_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_PASSED_ON_AFTER_S", 0.0)
    written: asyncio.Queue[Any] = asyncio.Queue(1)
    channel: Any = SimpleNamespace(number=1, is_closed=False, write_queue=written)
    closed = asyncio.Event()

    async def close() -> None:
        closed.set()

    acknowledging = Acknowledger(channel)
    for tag in (1, 2):
        acknowledging.delivered(tag)
    await acknowledging.ack([1])
    waiting = asyncio.create_task(acknowledging.ack([2]))
    await asyncio.sleep(0)
    # Nothing is held any more, and the last acknowledgement waits for room.
    acknowledging.retire(close)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not closed.is_set()
    written.get_nowait()
    await waiting
    await closed.wait()


async def _two(written: asyncio.Queue[Any]) -> list[bytes]:
    return [(await written.get()).payload, (await written.get()).payload]
