"""Sends, changes and deletes messages over HTTP and AMQP at moments that the seed draws, and consumes them.

Most of the load is that of `make torture`. What happened goes to histories, which tests/judging.py judges. A message's
key is its body; several messages may have had one id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from random import Random
from typing import Any, Final

from benchmarks.loops import together
from tests.events import What
from tests.history import History, now_ms
from tests.simulate.campaigns import MESSAGES, Campaigns
from tests.simulate.consumers import RecordingSubscriber, SpoilingPuller
from tests.simulate.plan import Step, Steps, follow
from tests.simulate.receiver import Receiver
from tests.simulate.replays import Replays
from tests.simulate.topics import ALL, NEVER_DIRECT, ONCE, SENT, SLOW, YOUNG
from tests.simulate.upserts import TURNS, Upserts
from tests.torture import reuse
from tests.torture.amqp import Publisher
from tests.torture.api import Api
from tests.torture.letters import Letters
from tests.torture.policies import Policies
from tests.torture.producers import Producers
from tests.torture.reuse import Reuse
from tests.torture.sender import OK, Sender, instant_ms
from tests.torture.ticks import Ticks
from tests.torture.topics import CHANGED, CHANGED_CONSUMED, CHANGED_PULLED, CONSUMED, PULLED, REMOVED, first

_LONGEST_MS: Final = 12_000
_BATCH: Final = 5
_REMOVED: Final = 4
_LETTERS: Final = 10
_LOOK_S: Final = 0.2
_RECORDED_S: Final = 5.0  # the ack of a moment ago; a call of Redis that fails is tried again a second later

Kind = Callable[[int], Awaitable[None]]
"""Sends messages. Gets its number, which no other work of the load has."""


def _name(kind: Kind) -> str:
    return kind.__qualname__.replace("._", " ").replace(".", " ").replace("_", " ").lower()


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
        self._letters = Letters(self._sender, amqp_url, count=_LETTERS, random=random)
        self.replays = Replays(api, {topic: once if topic == ONCE else history for topic in ALL}, random)
        self._campaigns = Campaigns(self._sender, random)
        self._ticks = Ticks(api, history)
        self._receiver = Receiver(api, history, random)
        self._subscribers = [
            RecordingSubscriber(amqp_url, topic, history, publisher, random) for topic in (*CONSUMED, CHANGED_CONSUMED)
        ]
        self._findings: list[str] = []
        self._kinds: dict[Kind, tuple[float, int]] = {  # share, and messages of each
            producers.single: (0.36, 1),
            producers.without_id: (0.06, 1),
            producers.batch: (0.05, _BATCH),
            producers.by_key: (0.08, 1),
            self._by_header: (0.14, 1),
            self._reuse.again: (0.04, reuse.TIMES),
            self._reuse.shared: (0.04, 2),
            self._reuse.forgotten: (0.04, 1),
            self._if_exists: (0.1, TURNS),
            self._campaigns.run: (0.05, MESSAGES),
            self._of_once: (0.12, 1),
        }

    @property
    def findings(self) -> list[str]:
        """What went wrong besides the messages' histories."""
        parts = (self._reuse, self._campaigns, self._ticks, self._receiver)
        return [*self._findings, *(finding for part in parts for finding in part.findings)]

    async def first(self) -> None:
        """Sends a message to each topic, so that its queues exist."""
        await asyncio.gather(
            *(self._sender.send(topic, first(topic), {"delay": 0}) for topic in ALL if topic not in (ONCE, *YOUNG)),
            self._once.send(ONCE, first(ONCE), {"delay": 0, "max_retry": 0}),
        )

    async def fill(self) -> None:
        """Makes dead letters. Returns when all are there."""
        await self._letters.fill()

    def consumers(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yields all that consumes. Each goes on for ever."""
        for topic in (*PULLED, *PULLED, CHANGED_PULLED, REMOVED):
            yield self._puller(topic, self._history, spoiled=0.1)
        yield self._puller(SLOW, self._history, spoiled=0.6)
        yield self._puller(ONCE, self._once_history, spoiled=0.3)
        for subscriber in self._subscribers:
            yield subscriber.run()
        yield self._letters.consume()
        yield self._ticks.consume()

    def _puller(self, topic: str, history: History, *, spoiled: float) -> Coroutine[Any, Any, None]:
        return SpoilingPuller(self._api, topic, history, self._policies, self._random, spoiled=spoiled).run()

    def drawn(self, random: Random, seconds: float, messages: int) -> Steps:
        """Draws the actions that send about so many messages within the time."""
        kinds, shares = [*self._kinds], [share for share, _ in self._kinds.values()]
        steps: list[Step] = []
        left = messages
        while left > 0:
            (kind,) = random.choices(kinds, shares)
            left -= self._kinds[kind][1]
            steps.append(Step(len(steps), random.uniform(0, seconds), _name(kind)))
        return tuple(steps)

    async def run(self, steps: Steps, random: Callable[[int], Random], seconds: float) -> None:
        """Sends by the plan, and does all else for so many seconds. Returns when every message is accepted. `random`:
        an action's random numbers."""
        kinds = {_name(kind): kind for kind in self._kinds}
        stop = asyncio.Event()
        async with together() as group:
            group.create_task(self._policies.run(CHANGED, stop))
            group.create_task(self._reuse.removed(stop, _REMOVED))
            group.create_task(self._letters.run(stop, seconds))
            group.create_task(self.replays.run(stop))
            group.create_task(self._ticks.run(stop))
            group.create_task(self._receiver.run(stop))
            group.create_task(follow(steps, lambda step: kinds[step.kind](step.number), random))
            await asyncio.sleep(seconds)
            stop.set()

    async def _by_header(self, number: int) -> None:
        """Publishes a message with its delay in a header. Perhaps deletes or moves it once the bridge knows it."""
        topic, delay_ms = self._random.choice(NEVER_DIRECT), self._random.randint(0, _LONGEST_MS)
        key = f"header-{number}"
        if not await self._sender.submit(topic, key, delay_ms) or self._random.random() < 0.5:
            return
        due_ms, path = now_ms() + delay_ms, f"/v1/topics/{topic}/messages/{key}"
        while (await self._api.insist("GET", path)).status_code != OK:
            if now_ms() > due_ms:
                return
            await asyncio.sleep(_LOOK_S)
        await asyncio.sleep(self._random.uniform(0, max(0, due_ms - now_ms())) / 1_000)
        if self._random.random() < 0.5:
            await self._sender.delete(topic, key)
        else:
            await self._sender.move(topic, key, {"delay": self._random.randint(0, _LONGEST_MS)})

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

    async def look(self, lost_acks: Collection[tuple[str, str]]) -> None:
        """Looks at the end of the calm time for what has gone silent, and for acks that nobody has recorded.
        `lost_acks`: the topic and id of each ack that was deleted before."""
        self._ticks.end()
        for recorded in [one for subscriber in self._subscribers for one in subscriber.recorded]:
            topic, message_id, created_ms = recorded
            if created_ms <= self._history.emptied_ms or (topic, message_id) in lost_acks:
                continue  # Redis may have lost the ack
            if await self._lives(*recorded):
                await asyncio.sleep(_RECORDED_S)
                if state := await self._lives(*recorded):
                    self._findings.append(f"{message_id} of {topic} is {state} after its recorded ack")

    async def _lives(self, topic: str, message_id: str, created_ms: int) -> str:
        """Returns the state of a live message. Empty: it has ended, Redis does not know it, or another message has its
        id."""
        found = await self._api.insist("GET", f"/v1/topics/{topic}/messages/{message_id}")
        shown = found.json() if found.status_code == OK else {"state": ""}
        is_live = shown["state"] in ("waiting", "ready", "leased") and instant_ms(shown["created_at"]) == created_ms
        return str(shown["state"]) if is_live else ""
