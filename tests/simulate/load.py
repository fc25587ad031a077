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
from tests.simulate.mix import Mix, some
from tests.simulate.plan import Step, Steps, follow
from tests.simulate.receiver import Receiver
from tests.simulate.replays import Replays
from tests.simulate.topics import ALL, CALLED, NEVER_DIRECT, ONCE, SENT, SLOW, YOUNG
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
from tests.torture.topics import (
    CHANGED,
    CHANGED_CONSUMED,
    CHANGED_PULLED,
    CHECKED,
    CONSUMED,
    LETTERS,
    PULLED,
    REMOVED,
    TICKED,
    first,
)

_REMOVED: Final = 4
_LETTERS: Final = 10
_LOOK_S: Final = 0.2
_RECORDED_S: Final = 5.0  # the ack of a moment ago; a call of Redis that fails is tried again a second later

Kind = Callable[[int], Awaitable[None]]
"""Sends messages. Gets its number, which no other work of the load has."""


def _name(kind: Kind) -> str:
    return kind.__qualname__.replace("._", " ").replace(".", " ").replace("_", " ").lower()


class Load:
    """`histories`: of messages with the default number of retries, and of messages that come once. `mix`: what the load
    is made of."""

    def __init__(
        self, api: Api, amqp_url: str, histories: tuple[History, History], random: Random, *, mix: Mix
    ) -> None:
        history, once = histories
        self._api = api
        self._amqp_url = amqp_url
        self._random = random
        self._mix = mix
        self._history = history
        self._once_history = once
        self._upserts: list[Upserts] = []
        publisher = Publisher(amqp_url)
        self._policies = Policies(api, history, random)
        self._sender = Sender(api, publisher, history, self._policies)
        self._once = Sender(api, publisher, once, self._policies)
        producers = Producers(self._sender, mix.of(SENT), longest_ms=mix.longest_ms, random=random, batch=mix.batch)
        self._reuse = Reuse(self._sender, random, pulled=mix.of(PULLED), checked=mix.of(CHECKED))
        self._letters = Letters(self._sender, amqp_url, count=_LETTERS, random=random)
        topics = (*mix.of(ALL), *YOUNG)
        self.replays = Replays(api, {topic: once if topic == ONCE else history for topic in topics}, random)
        self._campaigns = Campaigns(self._sender, random, mix.of(CHECKED))
        self._ticks = Ticks(api, history)
        self._receiver = Receiver(api, history, random)
        self._subscribers = [
            RecordingSubscriber(amqp_url, topic, history, publisher, random)
            for topic in mix.of((*CONSUMED, CHANGED_CONSUMED))
        ]
        self._findings: list[str] = []
        self._kinds: dict[Kind, int] = {  # messages of each
            producers.single: 1,
            producers.without_id: 1,
            producers.batch: mix.batch,
            producers.by_key: 1,
            self._by_header: 1,
            self._reuse.again: reuse.TIMES,
            self._reuse.shared: 2,
            self._reuse.forgotten: 1,
            self._if_exists: TURNS,
            self._campaigns.run: MESSAGES,
            self._of_once: 1,
        }

    @property
    def findings(self) -> list[str]:
        """What went wrong besides the messages' histories."""
        parts = (self._reuse, self._campaigns, self._ticks, self._receiver)
        return [*self._findings, *(finding for part in parts for finding in part.findings)]

    async def first(self) -> None:
        """Sends a message to each topic, so that its queues exist."""
        await asyncio.gather(
            *(self._sender.send(topic, first(topic), {"delay": 0}) for topic in self._mix.of(ALL) if topic != ONCE),
            *(self._once.send(topic, first(topic), {"delay": 0, "max_retry": 0}) for topic in self._mix.of((ONCE,))),
        )

    async def fill(self) -> None:
        """Makes dead letters. Returns when all are there."""
        if LETTERS in self._mix.topics:
            await self._letters.fill()

    def consumers(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yields all that consumes. Each goes on for ever."""
        mix = self._mix
        for number, topic in enumerate(mix.of((*PULLED, *PULLED, CHANGED_PULLED, REMOVED))):
            yield self._puller(topic, self._history, spoiled=mix.spoiled, along=number % 2 == 1)
        for topic in mix.of((SLOW, SLOW)):
            yield self._puller(topic, self._history, spoiled=0.6)
        for topic in mix.of((ONCE,)):
            yield self._puller(topic, self._once_history, spoiled=0.3)
        for subscriber in self._subscribers:
            yield subscriber.run()
        if LETTERS in mix.topics:
            yield self._letters.consume()
        if TICKED in mix.topics:
            yield self._ticks.consume()

    def _puller(
        self, topic: str, history: History, *, spoiled: float, along: bool = False
    ) -> Coroutine[Any, Any, None]:
        lease_ms, waits = self._mix.lease_ms, self._mix.waits
        api, policies, random = self._api, self._policies, self._random
        puller = SpoilingPuller(
            api, topic, history, policies, random, spoiled=spoiled, lease_ms=lease_ms, waits=waits, along=along
        )
        return puller.run()

    def drawn(self, random: Random, seconds: float, messages: int) -> Steps:
        """Draws the actions that send about so many messages within the time."""
        known = [kind for kind in self._kinds if ONCE in self._mix.topics or kind != self._of_once]
        kinds = some(random, known, self._mix.actions) or [random.choice(known)]
        shares = [random.random() / self._kinds[kind] for kind in kinds]
        steps: list[Step] = []
        left = messages
        while left > 0:
            (kind,) = random.choices(kinds, shares)
            left -= self._kinds[kind]
            steps.append(Step(len(steps), random.uniform(0, seconds), _name(kind)))
        return tuple(steps)

    async def run(self, steps: Steps, random: Callable[[int], Random], seconds: float) -> None:
        """Sends by the plan, and does all else for so many seconds. Returns when every message is accepted. `random`:
        an action's random numbers."""
        kinds = {_name(kind): kind for kind in self._kinds}
        stop = asyncio.Event()
        async with together() as group:
            for work in self._besides(stop, seconds):
                group.create_task(work)
            group.create_task(follow(steps, lambda step: kinds[step.kind](step.number), random))
            await asyncio.sleep(seconds)
            stop.set()

    def _besides(self, stop: asyncio.Event, seconds: float) -> Iterator[Coroutine[Any, Any, None]]:
        """Yields what goes on until `stop` is set, on the topics that the seed uses."""
        topics = self._mix.topics
        yield self._policies.run(self._mix.of(CHANGED), stop)
        yield self.replays.run(stop)
        if REMOVED in topics:
            yield self._reuse.removed(stop, _REMOVED)
        if LETTERS in topics:
            yield self._letters.run(stop, seconds)
        if TICKED in topics:
            yield self._ticks.run(stop)
        if CALLED in topics:
            yield self._receiver.run(stop)

    async def _by_header(self, number: int) -> None:
        """Publishes a message with its delay in a header. Perhaps deletes or moves it once the bridge knows it."""
        topic, delay_ms = self._random.choice(self._mix.of(NEVER_DIRECT)), self._delay_ms()
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
            await self._sender.move(topic, key, {"delay": self._delay_ms()})

    async def _of_once(self, number: int) -> None:
        delay_ms = self._delay_ms()
        when = {"deliver_at": now_ms() + delay_ms} if self._random.random() < 0.5 else {"delay": delay_ms}
        await self._once.send(ONCE, f"once-{number}", {**when, "max_retry": 0})

    async def _if_exists(self, number: int) -> None:
        topic = self._random.choice(self._mix.of(SENT))
        upserts = Upserts(self._api, self._history, self._random, topic, f"exists-{number}")
        self._upserts.append(upserts)
        await upserts.run()

    def _delay_ms(self) -> int:
        return self._random.randint(0, self._mix.longest_ms)

    def end(self) -> None:
        """Notes what nobody owes: a Redis that lost its data may take an earlier message of an id for the live one."""
        if self._history.emptyings:
            for upserts in self._upserts:
                for key in upserts.keys:
                    self._history.note(key, What.DELETING)

    async def look(self, lost_acks: Collection[tuple[str, str]]) -> None:
        """Looks at the end of the calm time for what has gone silent, and for acks that nobody has recorded.
        `lost_acks`: the topic and id of each ack that was deleted before."""
        if TICKED in self._mix.topics:
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
