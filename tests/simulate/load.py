"""Sends, changes and deletes messages over HTTP, and sends some over AMQP, at moments that the seed draws.

What happened goes to histories, which tests/judging.py judges. A message's key is its body; several messages may have
had one id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, cast

from benchmarks.loops import together
from tests.events import What
from tests.history import History, now_ms
from tests.simulate.topics import CHANGED, CONSUMED, ONCE, PULLED
from tests.simulate.upserts import TURNS, Upserts
from tests.torture.amqp import Publisher
from tests.torture.api import Api
from tests.torture.policies import Policies
from tests.torture.sender import Sender, When, due_ms

_LONGEST_MS: Final = 12_000
_BATCH: Final = 5
_LIVES: Final = 3
_ACKED_WITHIN_S: Final = 15.0
_LOOK_S: Final = 0.2


class _NoPolicies:
    """No topic of a simulation is on direct release."""

    def may_be_direct(self, topic: str) -> bool:
        return False


class Load:
    """`history` is of messages with the default number of retries, `once` of messages that come once."""

    def __init__(self, api: Api, publisher: Publisher, history: History, once: History, random: Random) -> None:
        self._api = api
        self._random = random
        self._history = history
        self._upserts: list[Upserts] = []
        policies = cast(Policies, _NoPolicies())
        self._sender = Sender(api, publisher, history, policies)
        self._once = Sender(api, publisher, once, policies)
        self._kinds: dict[Callable[[int], Awaitable[None]], tuple[float, int]] = {  # share, and messages of each
            self._single: (0.4, 1),
            self._without_id: (0.08, 1),
            self._batch: (0.08, _BATCH),
            self._again: (0.06, _LIVES),
            self._if_exists: (0.12, TURNS),
            self._by_key: (0.12, 1),
            self._of_once: (0.14, 1),
        }

    async def first(self) -> None:
        """Sends a message to each topic, so that its queues exist."""
        await asyncio.gather(
            *(self._sender.send(topic, f"first-{topic}", {"delay": 0}) for topic in (*PULLED, *CONSUMED, *CHANGED)),
            self._once.send(ONCE, f"first-{ONCE}", {"delay": 0, "max_retry": 0}),
        )

    async def run(self, seconds: float, messages: int) -> None:
        """Sends about so many messages within the time. Returns when every message is accepted."""
        kinds, shares = [*self._kinds], [share for share, _ in self._kinds.values()]
        async with together() as group:
            number, left = 0, messages
            while left > 0:
                (kind,) = self._random.choices(kinds, shares)
                left -= self._kinds[kind][1]
                group.create_task(self._later(self._random.uniform(0, seconds), kind, number))
                number += 1

    async def _later(self, pause_s: float, work: Callable[[int], Awaitable[None]], number: int) -> None:
        await asyncio.sleep(pause_s)
        await work(number)

    async def _single(self, number: int) -> None:
        """Sends a message, and perhaps deletes or moves it, or both at once."""
        topic, key, when = self._topic(), f"single-{number}", self._when()
        if None in await self._sender.send(topic, key, when):
            return  # a try without an answer may create the message after its delete
        fate = self._random.random()
        if fate < 0.2:
            await self._before_due(when)
            await self._sender.delete(topic, key)
        elif fate < 0.5:
            for _ in range(self._random.randint(1, 3)):
                await self._before_due(when)
                when = {"delay": 0} if self._random.random() < 0.3 else self._when()
                if not await self._sender.move(topic, key, when):
                    return
        elif fate < 0.6:
            await self._before_due(when)
            await asyncio.gather(self._sender.move(topic, key, self._when()), self._sender.delete(topic, key))

    async def _without_id(self, number: int) -> None:
        await self._sender.send_without_id(self._topic(), f"without-id-{number}", self._when())

    async def _batch(self, number: int) -> None:
        await self._sender.send_together(
            self._topic(), {f"batch-{number}-{one}": self._when() for one in range(_BATCH)}
        )

    async def _by_key(self, number: int) -> None:
        await self._sender.publish(self._topic(), f"key-{number}", self._random.randrange(0, 8_000, 100))

    async def _of_once(self, number: int) -> None:
        await self._once.send(ONCE, f"once-{number}", {**self._when(), "max_retry": 0})

    async def _again(self, number: int) -> None:
        """Sends one id a few times, each time after the message before was acknowledged or deleted."""
        topic, message_id = self._random.choice(PULLED), f"again-{number}"
        for life in range(_LIVES):
            key, deleted = f"{message_id}#{life}", self._random.random() < 0.5
            delay_ms = self._random.randint(2_000, 6_000) if deleted else self._random.randint(0, 1_500)
            if await self._sender.send(topic, key, {"delay": delay_ms}, message_id=message_id):
                return  # a failed try may have made a message beside the accepted one
            if deleted:
                await asyncio.sleep(self._random.uniform(0, delay_ms) / 1_000)
                ended = await self._sender.delete(topic, key, message_id=message_id)
            else:
                ended = await self._acked(key)
            if not ended:
                return

    async def _acked(self, key: str) -> bool:
        for _ in range(round(_ACKED_WITHIN_S / _LOOK_S)):
            if key in self._history.acked:
                return True
            await asyncio.sleep(_LOOK_S)
        return False

    async def _if_exists(self, number: int) -> None:
        upserts = Upserts(self._api, self._history, self._random, self._topic(), f"exists-{number}")
        self._upserts.append(upserts)
        await upserts.run()

    def end(self) -> None:
        """Notes what nobody owes: a Redis that lost its data may take an earlier message of an id for the live one."""
        if self._history.emptyings:
            for upserts in self._upserts:
                for key in upserts.keys:
                    self._history.note(key, What.DELETING)

    def _topic(self) -> str:
        return self._random.choice((*PULLED, *CONSUMED, *CHANGED))

    def _when(self) -> When:
        delay_ms = self._random.randint(0, _LONGEST_MS)
        return {"deliver_at": now_ms() + delay_ms} if self._random.random() < 0.5 else {"delay": delay_ms}

    async def _before_due(self, when: When) -> None:
        await asyncio.sleep(self._random.uniform(0, max(0, due_ms(when) - now_ms())) / 1_000)
