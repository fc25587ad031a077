"""Fills a topic with dead letters, more than RabbitMQ gives one consumer, and replays them one by one and all together.

Some ids are taken again meanwhile, and Redis may be emptied. A quorum queue gives a consumer at most 2,000 messages, so
a search for one letter must go on behind them. An AMQP client publishes the messages: Redis keeps no body of theirs, so
a replay needs the letter in the queue.
"""

from __future__ import annotations

import asyncio
from random import Random
from time import monotonic

from aio_pika.abc import AbstractIncomingMessage

from tests.events import What
from tests.torture import amqp
from tests.torture.consumers import consumed
from tests.torture.sender import NOT_FOUND, OK, Sender
from tests.torture.topics import LETTERS
from tests.waiting import pause

_BATCH = 200
_LOOK_S = 0.5
_APART_S = (2.0, 4.0)
_ALONE = 0.6  # of the time, letters are replayed one by one; then all together
_TAKEN = 0.5  # of the letters whose turn it is: their ids are used again, so that they wait for the replay of all
_MOST = 1_000  # for one call
_PATIENCE_S = 60.0


class Letters:
    def __init__(self, sender: Sender, amqp_url: str, *, count: int, random: Random) -> None:
        self._sender = sender
        self._history = sender.history
        self._amqp_url = amqp_url
        self._random = random
        self._dead = [f"letter-{number}" for number in range(count)]
        self._rejected = set(self._dead)  # are to be rejected when they are delivered

    async def consume(self) -> None:
        """Consumes for ever. Rejects every letter that nobody replays."""
        await amqp.consume(self._amqp_url, f"ready.{LETTERS}", self._received)

    async def fill(self) -> None:
        """Returns when all messages are dead letters."""
        policy = await self._sender.api.insist("PUT", f"/v1/topics/{LETTERS}", {"max_retry": 0})
        policy.raise_for_status()
        for start in range(0, len(self._dead), _BATCH):
            batch = self._dead[start : start + _BATCH]
            await asyncio.gather(*(self._sender.publish(LETTERS, key, 0) for key in batch))
        while await self._count() < len(self._dead):
            await pause(_LOOK_S)
        for key in self._dead:
            self._history.note(key, What.DEAD)

    async def run(self, stop: asyncio.Event, seconds: float) -> None:
        """Replays letters one by one, then the rest together. Returns when no letter is left."""
        loop = asyncio.get_running_loop()
        alone_until_s = loop.time() + seconds * _ALONE
        self._random.shuffle(self._dead)
        taken: list[str] = []
        while not stop.is_set() and loop.time() < alone_until_s and self._dead:
            key = self._dead.pop()
            if self._random.random() < _TAKEN:
                taken.append(key)
                await self._sender.send(LETTERS, f"{key}#again", {"delay": 0}, message_id=key)
            else:
                await self._replay(key)
            await asyncio.sleep(self._random.uniform(*_APART_S))
        self._dead += taken
        while await self._replay_many():
            pass

    async def _replay(self, key: str) -> None:
        self._rejected.discard(key)
        self._history.note(key, What.REPLAYING)
        give_up_at_s = monotonic() + _PATIENCE_S
        tries = 0
        while True:
            tries += 1
            response = await self._sender.api.call("POST", f"/v1/topics/{LETTERS}/dead/{key}/replay")
            # A search that a fault has interrupted may hold the letter for a while: 409.
            if (response is not None and response.status_code in (OK, NOT_FOUND)) or monotonic() > give_up_at_s:
                break
            await self._sender.api.pause()
        status = None if response is None else response.status_code
        if status == OK or (status == NOT_FOUND and tries > 1):  # then by an earlier try
            self._history.note(key, What.REPLAYED)
        elif status == NOT_FOUND:
            self._history.note(key, What.FORGOTTEN)

    async def _replay_many(self) -> bool:
        """Replays all letters by calls for many. Returns False once none is left."""
        self._rejected.clear()
        for key in self._dead:
            self._history.note(key, What.REPLAYING)
        response = await self._sender.api.call("POST", f"/v1/topics/{LETTERS}/dead/replay", {"max": _MOST})
        if response is None or response.status_code >= 500:
            await self._sender.api.pause()
            return True
        if response.status_code == NOT_FOUND and self._history.emptyings:
            return False
        if response.raise_for_status().json()["replayed"] or await self._count():
            return True
        # An emptied Redis lists no letters: they stay in their queue.
        if not self._history.emptyings:
            for key in self._dead:
                self._history.note(key, What.REPLAYED)
        return False

    async def _count(self) -> int:
        response = await self._sender.api.insist("GET", f"/v1/topics/{LETTERS}")
        if response.status_code == NOT_FOUND:
            return 0  # Redis was emptied
        return int(response.raise_for_status().json()["counts"]["dead"])

    async def _received(self, message: AbstractIncomingMessage) -> None:
        key, attempt = consumed(self._history, message)
        if key in self._rejected:
            self._history.note(key, What.RETURNED, attempt=attempt)
            await message.reject(requeue=False)
        else:
            self._history.note(key, What.ACKING)
            await message.ack()
