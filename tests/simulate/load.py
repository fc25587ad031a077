"""Sends, changes and deletes messages over HTTP and AMQP at moments that the seed draws, and consumes them.

Most of the load is that of `make torture`. What happened goes to histories, which tests/judging.py judges. A message's
key is its body; several messages may have had one id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from random import Random
from typing import Any, Final

from benchmarks.loops import together
from tests.events import What
from tests.history import History, now_ms
from tests.simulate.consumers import SpoilingPuller
from tests.simulate.topics import ALL, ONCE, SENT, SLOW
from tests.simulate.upserts import TURNS, Upserts
from tests.torture import reuse
from tests.torture.amqp import Publisher
from tests.torture.api import Api
from tests.torture.consumers import Subscriber
from tests.torture.policies import Policies
from tests.torture.producers import Producers
from tests.torture.reuse import Reuse
from tests.torture.sender import Sender
from tests.torture.topics import CHANGED, CHANGED_CONSUMED, CHANGED_PULLED, CONSUMED, PULLED, first

_LONGEST_MS: Final = 12_000
_BATCH: Final = 5

Kind = Callable[[int], Awaitable[None]]
"""Sends messages. Gets its number, which no other work of the load has."""


class Load:
    """`history` is of messages with the default number of retries, `once` of messages that come once."""

    def __init__(self, api: Api, amqp_url: str, history: History, once: History, random: Random) -> None:
        self._api = api
        self._amqp_url = amqp_url
        self._random = random
        self._history = history
        self._once_history = once
        self._upserts: list[Upserts] = []
        publisher = Publisher(amqp_url)
        self._policies = Policies(api, history, random)
        self._sender = Sender(api, publisher, history, self._policies)
        self._once = Sender(api, publisher, once, self._policies)
        producers = Producers(self._sender, SENT, longest_ms=_LONGEST_MS, random=random, batch=_BATCH)
        self._reuse = Reuse(self._sender, random)
        self._kinds: dict[Kind, tuple[float, int]] = {  # share, and messages of each
            producers.single: (0.36, 1),
            producers.without_id: (0.06, 1),
            producers.batch: (0.05, _BATCH),
            producers.by_key: (0.08, 1),
            self._reuse.again: (0.04, reuse.TIMES),
            self._if_exists: (0.1, TURNS),
            self._of_once: (0.12, 1),
        }

    @property
    def findings(self) -> list[str]:
        """What went wrong besides the messages' histories."""
        return self._reuse.findings

    async def first(self) -> None:
        """Sends a message to each topic, so that its queues exist."""
        await asyncio.gather(
            *(self._sender.send(topic, first(topic), {"delay": 0}) for topic in ALL if topic != ONCE),
            self._once.send(ONCE, first(ONCE), {"delay": 0, "max_retry": 0}),
        )

    def consumers(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yields all that consumes. Each goes on for ever."""
        for topic in (*PULLED, *PULLED, CHANGED_PULLED):
            yield self._puller(topic, self._history, spoiled=0.1)
        yield self._puller(SLOW, self._history, spoiled=0.6)
        yield self._puller(ONCE, self._once_history, spoiled=0.3)
        for topic in (*CONSUMED, CHANGED_CONSUMED):
            yield Subscriber(self._amqp_url, topic, self._history, self._random).run()

    def _puller(self, topic: str, history: History, *, spoiled: float) -> Coroutine[Any, Any, None]:
        return SpoilingPuller(self._api, topic, history, self._policies, self._random, spoiled=spoiled).run()

    async def run(self, seconds: float, messages: int) -> None:
        """Sends about so many messages within the time. Returns when every message is accepted."""
        kinds, shares = [*self._kinds], [share for share, _ in self._kinds.values()]
        stop = asyncio.Event()
        async with together() as group:
            group.create_task(self._policies.run(CHANGED, stop))
            number, left = 0, messages
            while left > 0:
                (kind,) = self._random.choices(kinds, shares)
                left -= self._kinds[kind][1]
                group.create_task(self._later(self._random.uniform(0, seconds), kind, number))
                number += 1
            await asyncio.sleep(seconds)
            stop.set()

    async def _later(self, pause_s: float, work: Kind, number: int) -> None:
        await asyncio.sleep(pause_s)
        await work(number)

    async def _of_once(self, number: int) -> None:
        delay_ms = self._random.randint(0, _LONGEST_MS)
        when = {"deliver_at": now_ms() + delay_ms} if self._random.random() < 0.5 else {"delay": delay_ms}
        await self._once.send(ONCE, f"once-{number}", {**when, "max_retry": 0})

    async def _if_exists(self, number: int) -> None:
        topic = self._random.choice(SENT)
        upserts = Upserts(self._api, self._history, self._random, topic, f"exists-{number}")
        self._upserts.append(upserts)
        await upserts.run()

    def end(self) -> None:
        """Notes what nobody owes: a Redis that lost its data may take an earlier message of an id for the live one."""
        if self._history.emptyings:
            for upserts in self._upserts:
                for key in upserts.keys:
                    self._history.note(key, What.DELETING)
