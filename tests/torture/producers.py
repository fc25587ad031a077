"""Sends messages at a steady rate, and moves and deletes some before they are due."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from benchmarks.loops import together
from tests.history import now_ms
from tests.torture.sender import Sender, When, due_ms

SHORT_MS = 8_000  # the longest delay of half of the messages, and of those by routing key
_BATCH = 10
_SINGLE, _WITHOUT_ID, _IN_BATCHES, _BY_KEY = 0.25, 0.1, 0.35, 0.3  # shares of the rate
_DELETED, _MOVED, _DELETED_BESIDE = 0.15, 0.25, 0.05  # shares of the messages that are sent one at a time
_MOST_MOVES = 3


class Producers:
    """Sends over HTTP, one and ten at a time, and over AMQP by routing key.

    A message that is not accepted is sent again with the same id, if it has one.
    """

    def __init__(
        self, sender: Sender, topics: Sequence[str], *, longest_ms: int, random: Random, batch: int = _BATCH
    ) -> None:
        self._sender = sender
        self._topics = topics
        self._longest_ms = longest_ms
        self._random = random
        self._batch_size = batch

    async def run(self, stop: asyncio.Event, rate_per_s: float) -> None:
        """Sends until `stop` is set, and returns when every message is accepted."""
        async with together() as group:
            for work, per_s in (
                (self.single, rate_per_s * _SINGLE),
                (self.without_id, rate_per_s * _WITHOUT_ID),
                (self.batch, rate_per_s * _IN_BATCHES / self._batch_size),
                (self.by_key, rate_per_s * _BY_KEY),
            ):
                group.create_task(paced(work, per_s, stop))

    async def single(self, number: int) -> None:
        """Sends a message, and perhaps deletes or moves it, or both at once."""
        key, when = f"single-{number}", self._when(by_instant=number % 2 == 0)
        topic = self._random.choice(self._topics)
        # A try without an answer may create the message after its delete or its move.
        if None in await self._sender.send(topic, key, when):
            return
        fate = self._random.random() - _DELETED
        if fate < 0:
            await self._before_due(when)
            await self._sender.delete(topic, key)
        elif fate < _MOVED:
            await self._move(topic, key, when)
        elif fate < _MOVED + _DELETED_BESIDE:
            await self._before_due(when)
            await asyncio.gather(self._sender.move(topic, key, self._moved()), self._sender.delete(topic, key))

    async def without_id(self, number: int) -> None:
        when = self._when(by_instant=number % 2 == 0)
        await self._sender.send_without_id(self._random.choice(self._topics), f"without-id-{number}", when)

    async def _move(self, topic: str, key: str, when: When) -> None:
        """Moves the message a few times, sooner or later, and perhaps to now."""
        for _ in range(self._random.randint(1, _MOST_MOVES)):
            await self._before_due(when)
            when = self._moved()
            if not await self._sender.move(topic, key, when):
                return

    async def _before_due(self, when: When) -> None:
        """Waits until a moment before the message is due, or later when servers are away."""
        await asyncio.sleep(self._random.uniform(0, max(0, due_ms(when) - now_ms())) / 1_000)

    async def batch(self, number: int) -> None:
        messages = {f"batch-{number}-{item}": self._when(by_instant=item % 2 == 0) for item in range(self._batch_size)}
        await self._sender.send_together(self._random.choice(self._topics), messages)

    async def by_key(self, number: int) -> None:
        delay_ms = self._random.randrange(0, min(SHORT_MS, self._longest_ms), 100)
        await self._sender.publish(self._random.choice(self._topics), f"key-{number}", delay_ms)

    def _moved(self) -> When:
        return {"delay": 0} if self._random.random() < 0.3 else self._when(by_instant=self._random.random() < 0.5)

    def _when(self, *, by_instant: bool) -> When:
        delay_ms = self._random.randint(0, self._random.choice((min(SHORT_MS, self._longest_ms), self._longest_ms)))
        return {"deliver_at": now_ms() + delay_ms} if by_instant else {"delay": delay_ms}


async def paced(work: Callable[[int], Awaitable[None]], per_s: float, stop: asyncio.Event) -> None:
    """Starts `work(0)`, `work(1)`, … at even distances until `stop` is set. Returns when all have ended."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()

    async def awaited(number: int) -> None:
        await work(number)

    async with together() as group:
        number = 0
        while not stop.is_set():
            group.create_task(awaited(number))
            number += 1
            await asyncio.sleep(began_s + number / per_s - loop.time())
