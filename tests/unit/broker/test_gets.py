"""Tests that a message reaches the caller of its get, or is requeued."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiormq.exceptions import ChannelInvalidStateError, ChannelNotFoundEntity

from bridge.broker.client import frames
from bridge.broker.client.acknowledger import Acknowledger
from bridge.broker.client.delivery import Delivery, acknowledge
from bridge.broker.client.gets import Gets, Unread
from bridge.broker.copies.properties import Properties
from bridge.model.errors import BrokerUnavailable


class Channel:
    """Keeps what is written and requeued."""

    def __init__(self) -> None:
        self.number, self.is_closed = 3, False
        self.__close_event = asyncio.Event()  # of aiormq's class, which has the same name
        self.write_queue: asyncio.Queue[Any] = asyncio.Queue()
        self.futures: list[asyncio.Future[Any]] = []
        self.requeued: list[int] = []
        self.gets = Gets(self)  # type: ignore[arg-type]

    async def basic_reject(self, tag: int, **_: object) -> None:
        self.requeued.append(tag)

    def create_future(self) -> asyncio.Future[Any]:
        self.futures.append(future := asyncio.get_running_loop().create_future())
        return future

    def fail(self, error: Exception) -> None:
        for future in self.futures:
            if not future.done():
                future.set_exception(error)

    def begin_to_close(self) -> None:
        self.__close_event.set()

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


@pytest.mark.parametrize("is_closed", [True, False])
async def test_nothing_is_written_to_a_channel_that_is_closed_or_being_closed(is_closed: bool) -> None:
    channel = Channel()
    channel.is_closed = is_closed
    if not is_closed:
        channel.begin_to_close()

    with pytest.raises(ChannelInvalidStateError):
        await channel.gets.get("a")
    await acknowledge([channel.delivery(1)])
    acknowledger = Acknowledger(channel)  # type: ignore[arg-type]
    acknowledger.delivered(1)
    with pytest.raises(BrokerUnavailable):
        await acknowledger.ack([1])
    assert channel.write_queue.empty()


async def test_only_the_get_from_the_missing_queue_is_told_so() -> None:
    channel = Channel()
    tasks = await asked(channel, ["there", "missing", "there", "missing"])
    channel.gets.answered(None, 0)
    missing = ChannelNotFoundEntity("no queue 'missing'")

    channel.fail(missing)

    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert answers[:2] == [(None, 0), missing]
    assert [type(answer) for answer in answers[2:]] == [Unread, Unread]
