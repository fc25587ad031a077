"""Observes the broker: the arrivals in a queue, and the number of messages in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from time import time
from typing import NamedTuple

import aio_pika
from aio_pika.abc import AbstractChannel

from benchmarks.deliveries import Deliveries
from benchmarks.errors import BenchError

POLL_S = 0.005


class Arrival(NamedTuple):
    """When a message came, and when it was due by its `x-delay-due`. Both are Unix ms."""

    came_ms: float
    due_ms: int


class Arrivals:
    """The deliveries of one queue by message id. `twice`: how many came a second time."""

    def __init__(self) -> None:
        self.by_id: dict[str, Arrival] = {}
        self.twice = 0
        self.count = 0
        self._awaited: set[str] = set()
        self._here = asyncio.Event()

    async def until(self, ids: Collection[str], timeout_s: float) -> set[str]:
        """Waits until all these messages have come. Returns the ids that are missing after `timeout_s`."""
        self._awaited = set(ids) - self.by_id.keys()
        self._here.clear()
        if self._awaited:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._here.wait()
        return self._awaited

    def received(self, message_id: str, due_ms: int) -> None:
        came_ms = time() * 1_000
        self.count += 1
        if message_id in self.by_id:
            self.twice += 1
            return
        self.by_id[message_id] = Arrival(came_ms, due_ms)
        self._awaited.discard(message_id)
        if not self._awaited:
            self._here.set()


class Broker:
    """One channel to the broker."""

    def __init__(self, channel: AbstractChannel) -> None:
        self._channel = channel

    async def depth(self, queue: str) -> int:
        """Returns the number of ready messages in the queue, without those delivered and unacknowledged."""
        declared = await self._channel.declare_queue(queue, passive=True)
        return declared.declaration_result.message_count or 0

    async def until_depth(
        self, queue: str, count: int, timeout_s: float, sampled: Callable[[float, int], None] = lambda at_s, depth: None
    ) -> float:
        """Waits until the queue holds at least `count` messages, and returns that moment in Unix seconds. Calls
        `sampled` with the moment and the depth of each look-up.

        Raises:
            BenchError: the queue held fewer for `timeout_s`.
        """
        give_up_s = time() + timeout_s
        while True:
            depth = await self.depth(queue)
            now_s = time()
            sampled(now_s, depth)
            if depth >= count:
                return now_s
            if now_s > give_up_s:
                raise BenchError(f"{queue} holds {depth} of {count} messages after {timeout_s:.0f} s")
            await asyncio.sleep(POLL_S)

    async def until_steady(self, queue: str, for_s: float, timeout_s: float) -> None:
        """Waits until the queue is not empty and its depth has not changed `for_s`.

        Raises:
            BenchError: that did not happen within `timeout_s`.
        """
        give_up_s = time() + timeout_s
        depth, since_s = -1, time()
        while time() - since_s < for_s or not depth:
            now = await self.depth(queue)
            if now != depth:
                depth, since_s = now, time()
            if time() > give_up_s:
                raise BenchError(f"{queue} was empty or its depth still changed after {timeout_s:.0f} s")
            await asyncio.sleep(POLL_S)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Broker]:
    async with await aio_pika.connect(url) as connection:
        yield Broker(await connection.channel())


@asynccontextmanager
async def consumed(url: str, queue: str, *, prefetch: int = 0) -> AsyncIterator[Arrivals]:
    """Consumes the queue. With a `prefetch` the consumer acknowledges; without one the broker counts deliveries as
    acknowledged.

    Raises:
        BenchError: the consumer could not start, or ended too early.
    """
    arrivals = Arrivals()
    deliveries = Deliveries(arrivals.received, prefetch)
    try:
        await deliveries.consume(url, queue)
        yield arrivals
        if deliveries.error is not None:
            raise BenchError(f"the consumer of {queue} ended too early: {deliveries.error}")
    finally:
        deliveries.close()
