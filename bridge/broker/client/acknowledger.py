"""What one channel has delivered, and the acknowledgements of it, which RabbitMQ is told in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from math import inf
from time import monotonic
from typing import Any

from aiormq import Channel
from aiormq.abc import ChannelFrame

from bridge.broker.client import frames
from bridge.broker.client.ack_window import AckWindow
from bridge.model.errors import BrokerUnavailable

Close = Callable[[Channel], Coroutine[Any, Any, None]]

# RabbitMQ passes acknowledgements on to a quorum queue some at a time; those that wait for it end with their channel,
# and their messages come again.
_PASSED_ON_AFTER_S = 1.0


class Acknowledger:
    """Of one channel, over which nothing else is acknowledged.

    One acknowledgement may stand for many. Were a later one written before it, the tags it names would be known no more
    then, and RabbitMQ closes a channel over such a tag. So each is written before the next is made.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._window = AckWindow()
        self._turn = asyncio.Lock()
        self._told_s = -inf
        self._close: Close | None = None
        self._closing: asyncio.Task[None] | None = None

    def delivered(self, tag: int) -> None:
        self._window.delivered(tag)

    async def ack(self, tags: Iterable[int]) -> None:
        """Acknowledges deliveries, many with one frame where all before them are done too.

        Raises:
            BrokerUnavailable: the channel is gone, and they come again.
        """
        async with self._turn:
            if self._channel.is_closed:
                raise BrokerUnavailable("the channel is closed: what it delivered comes again")
            acks = self._window.done(tags)
            if payload := frames.acks(self._channel.number, acks.up_to, acks.single):
                await self._channel.write_queue.put(ChannelFrame(payload=payload, should_close=False))
                self._told_s = monotonic()
        self._close_retired()

    async def requeue(self, tag: int) -> None:
        """Puts a delivery back where it was; raises what aiormq does."""
        async with self._turn:
            self._window.done([tag])
            # A nack does not count from RabbitMQ 4.3 on, and what no pull can lease would come round for ever.
            await self._channel.basic_reject(tag, requeue=True, wait=False)
        self._close_retired()

    def retire(self, close: Close) -> None:
        """Has the channel closed once all that came over it is acknowledged or put back.

        What RabbitMQ handed out may never come: the leader of a quorum queue that ends meanwhile has it lost on its
        way, and the next one holds it for delivered (rabbitmq-server #15473). It is back in the queue when the channel
        ends.
        """
        self._close = close
        self._close_retired()

    def _close_retired(self) -> None:
        if self._close is not None and self._closing is None and not self._window.held:
            self._closing = asyncio.create_task(self._closed(self._close))

    async def _closed(self, close: Close) -> None:
        await asyncio.sleep(self._told_s + _PASSED_ON_AFTER_S - monotonic())
        # An acknowledgement written after it would end the connection.
        async with self._turn:
            await close(self._channel)
