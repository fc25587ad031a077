"""Tests that a message reaches the caller of its get, or is requeued."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiormq.exceptions import ChannelInvalidStateError

from bridge.broker.client import frames
from bridge.broker.client.delivery import Delivery
from bridge.broker.client.gets import Gets
from bridge.broker.copies.properties import Properties


class Channel:
    """Keeps what is written and requeued."""

    def __init__(self) -> None:
        self.number, self.is_closed = 3, False
        self.write_queue: asyncio.Queue[Any] = asyncio.Queue()
        self.create_future = asyncio.get_running_loop().create_future
        self.requeued: list[int] = []
        self.gets = Gets(self)  # type: ignore[arg-type]

    async def basic_reject(self, tag: int, **_: object) -> None:
        self.requeued.append(tag)

    def delivery(self, tag: int) -> Delivery:
        return Delivery(self, tag, "orders", Properties(), b"")  # type: ignore[arg-type]


async def asked(channel: Channel, queues: list[str]) -> list[asyncio.Task[Any]]:
    tasks = [asyncio.create_task(channel.gets.get(queue)) for queue in queues]
    written = [(await channel.write_queue.get()).payload for _ in queues]
    assert written == [frames.get(3, queue) for queue in queues]
    return tasks


async def test_answers_go_to_their_callers_in_order() -> None:
    channel = Channel()
    tasks = await asked(channel, ["a", "b", "c"])
    found = [(channel.delivery(1), 4), (None, 0), (channel.delivery(2), 0)]

    for delivery, behind in found:
        channel.gets.answered(delivery, behind)

    assert await asyncio.gather(*tasks) == found
    assert channel.requeued == []


@pytest.mark.parametrize("answered_first", [True, False])
async def test_message_whose_caller_gave_up_is_requeued(answered_first: bool) -> None:
    channel = Channel()
    first, second = await asked(channel, ["a", "a"])
    if answered_first:
        channel.gets.answered(channel.delivery(1), 1)
    first.cancel()
    await asyncio.wait([first])
    if not answered_first:
        channel.gets.answered(channel.delivery(1), 1)
    channel.gets.answered(channel.delivery(2), 0)

    delivery, _ = await second
    assert first.cancelled()
    assert delivery.delivery_tag == 2
    assert channel.requeued == [1]


async def test_get_on_a_closed_channel_fails() -> None:
    channel = Channel()
    channel.is_closed = True

    with pytest.raises(ChannelInvalidStateError):
        await channel.gets.get("a")
