"""The checkpoint's loop: takes what is due, asks Redis, publishes, names, acknowledges; in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from bridge import metrics
from bridge.broker.arrivals import Back, Due, Strange, read
from bridge.broker.feed import Delivery, Feed
from bridge.checkpoint.holding import Holding
from bridge.checkpoint.verdicts import ADOPT_AFTER_ASKED, HELD_AT_MOST_MS, Step, after_fire, after_return
from bridge.errors import BrokerUnavailable, Unavailable
from bridge.message import Copy
from bridge.service.parts import Parts
from bridge.service.values import Policy
from bridge.store import envelopes
from bridge.store.client import Call
from bridge.store.records import Outcome
from bridge.store.records import read as read_outcome

log = structlog.get_logger(__name__)

# Batches under way: one asks Redis while another waits for confirms. More of them would be smaller, and cost more.
_AT_ONCE = 3
_PAUSED_MS = 5_000  # what is due in a paused topic is asked about again after so long
_RETRY_MS = 500  # after a store or broker that was away


@dataclass(frozen=True, slots=True)
class _Item:
    tag: int
    arrival: Due | Back

    @property
    def copy(self) -> Copy:
        return self.arrival.copy


@dataclass(frozen=True, slots=True)
class _Refused:
    tag: int
    message: Delivery
    reason: str


class Checkpoint:
    name = "checkpoint"

    def __init__(self, parts: Parts) -> None:
        self._link = parts.broker.consuming
        self._store = parts.store
        self._records = parts.records
        self._ways = parts.broker.releases
        self._objects = parts.broker.objects
        self._names = parts.broker.objects.names
        self._topics = parts.topics
        self._prefetch = parts.settings.checkpoint_prefetch
        self._batch = parts.settings.checkpoint_batch
        self._keep_body_max = parts.settings.keep_body_max
        self._max_retry = parts.settings.max_retry
        self._holding: Holding[_Item | _Refused] = Holding()
        self._wake = asyncio.Event()
        self._awaited_ms: float | None = None
        self._under_way: set[asyncio.Task[None]] = set()
        self._settling: set[asyncio.Task[None]] = (
            set()
        )  # those of them that wait for a new queue, and keep nobody waiting
        self._broken: asyncio.Future[None]  # made for each session: a fault of ours in one of its batches
        self.state = "starting"

    async def run(self) -> None:
        """Runs for ever; what goes away is waited for."""
        while True:
            try:
                await self._session()
            except Unavailable as error:
                self.state = f"waiting: {error}"
                log.warning("checkpoint.waiting", reason=str(error))
            await asyncio.sleep(_RETRY_MS / 1_000)

    async def run_once(self, feed: Feed) -> None:
        """Waits until something is due, and sets its batch going."""
        while len(self._under_way) - len(self._settling) >= _AT_ONCE:
            await asyncio.wait(self._under_way - self._settling, return_when=asyncio.FIRST_COMPLETED)
        batch = await self._next_due()
        task = asyncio.create_task(self._process(feed, batch))
        self._under_way.add(task)
        if any(isinstance(one, _Item) and self._objects.unsettled(one.copy.topic) for one in batch):
            self._settling.add(task)
        task.add_done_callback(self._ended)

    async def _session(self) -> None:
        """One channel's life."""
        await self._objects.ensure_wheel()
        await self._store.learn_clock()
        self._broken = asyncio.get_running_loop().create_future()
        feed = await Feed.open(self._link, self._names.checkpoint, prefetch=self._prefetch, received=self._received)
        self.state = "ok"
        log.info("checkpoint.running")
        closed = asyncio.create_task(feed.until_closed())
        working = asyncio.create_task(self._work(feed))
        try:
            await asyncio.wait((closed, working, self._broken), return_when=asyncio.FIRST_COMPLETED)
            if self._broken.done():
                self._broken.result()
            if working.done():
                working.result()
            raise BrokerUnavailable("the checkpoint's channel was closed")
        except asyncio.CancelledError:
            # Told to stop: take no more, end what is under way, hand back the rest.
            with suppress(BrokerUnavailable):
                await feed.stop()
            working.cancel()
            if self._under_way:
                await asyncio.wait(self._under_way)
            raise
        finally:
            closed.cancel()
            working.cancel()
            for task in self._under_way:
                task.cancel()
            self._holding.clear()
            with suppress(BrokerUnavailable):
                await feed.close()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._settling.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._broken.done():
            self._broken.set_exception(error)

    async def _work(self, feed: Feed) -> None:
        while True:
            await self.run_once(feed)

    def _received(self, message: Delivery) -> None:
        now_ms = self._store.clock.now_ms()
        arrival = read(
            self._names,
            message.routing_key or "",
            message.header.properties,
            message.body,
            now_ms=int(now_ms),
            max_retry=self._max_retry,
        )
        tag = message.delivery_tag or 0
        if isinstance(arrival, Strange):
            self._hold(_Refused(tag, message, arrival.reason), now_ms)
            return
        # What is due later than the wheel aims short was moved there by nobody we know: Redis is asked at once.
        held = isinstance(arrival, Due) and arrival.copy.due_ms - now_ms <= HELD_AT_MOST_MS
        self._hold(_Item(tag, arrival), arrival.copy.due_ms if held else now_ms)

    def _hold(self, item: _Item | _Refused, due_ms: float) -> None:
        self._holding.add(due_ms, item)
        if self._awaited_ms is None or due_ms < self._awaited_ms:
            self._wake.set()

    async def _next_due(self) -> list[_Item | _Refused]:
        while True:
            now_ms = self._store.clock.now_ms()
            if due := self._holding.take_due(now_ms, self._batch):
                return due
            self._awaited_ms = self._holding.next_due_ms()
            self._wake.clear()
            wait_s = None if self._awaited_ms is None else (self._awaited_ms - now_ms) / 1_000
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    async def _process(self, feed: Feed, batch: Sequence[_Item | _Refused]) -> None:
        try:
            for one in batch:
                if isinstance(one, _Refused):
                    await self._refuse(feed, one)
            if items := [one for one in batch if isinstance(one, _Item)]:
                await self._decide_and_do(feed, items)
        except Unavailable as error:
            # Nothing was acknowledged: the same is decided again.
            self.state = f"waiting: {error}"
            again_ms = self._store.clock.now_ms() + _RETRY_MS
            for one in batch:
                self._hold(one, again_ms)

    async def _decide_and_do(self, feed: Feed, items: Sequence[_Item]) -> None:
        policies = {topic: await self._topics.used(topic) for topic in {item.copy.topic for item in items}}
        for left_ms in {item.arrival.stranded_ms for item in items if isinstance(item.arrival, Due)} - {0}:
            await self._objects.renew_slots(left_ms)
        answers = await self._store.run([self._question(item, policies[item.copy.topic]) for item in items])
        outcomes = [
            read_outcome(item.copy.topic, item.copy.id, answer) for item, answer in zip(items, answers, strict=True)
        ]
        steps = [
            self._step(item, outcome, policies[item.copy.topic]) for item, outcome in zip(items, outcomes, strict=True)
        ]
        await self._do(feed, items, outcomes, steps)
        self.state = "ok"

    def _question(self, item: _Item, policy: Policy) -> Call:
        if isinstance(item.arrival, Back):
            return self._records.returned(item.arrival.copy, by_ttl=item.arrival.by_ttl)
        paused_ms = _PAUSED_MS if policy.paused else 0
        return self._records.fire(item.copy, paused_ms=paused_ms, adopt=item.copy.asked >= ADOPT_AFTER_ASKED)

    def _step(self, item: _Item, outcome: Outcome, policy: Policy) -> Step:
        arrival = item.arrival
        if isinstance(arrival, Back):
            return after_return(arrival.copy, outcome, arrival.reason, policy, outcome.now_ms)
        return after_fire(arrival.copy, outcome, arrival.stranded_ms)

    async def _do(self, feed: Feed, items: Sequence[_Item], outcomes: Sequence[Outcome], steps: Sequence[Step]) -> None:
        # Before the release, so that whoever is handed a message can give it back.
        await self._keep_bodies(items, outcomes)
        publishing = [at for at, step in enumerate(steps) if step.publication is not None]
        publications = [step.publication for step in steps if step.publication is not None]
        errors = dict(zip(publishing, await self._ways.publish(publications), strict=True)) if publications else {}
        failed = {at for at, error in errors.items() if error is not None}
        naming = [at for at, step in enumerate(steps) if step.name is not None and at not in failed]
        calls = [name(self._records) for at in naming if (name := steps[at].name) is not None]
        if calls:
            await self._store.run(calls)
        done: list[int] = []
        for at, (item, step) in enumerate(zip(items, steps, strict=True)):
            if at in failed:
                self._hold(item, outcomes[at].now_ms + _RETRY_MS)
            elif step.hold_ms is not None:
                self._hold(item, outcomes[at].now_ms + step.hold_ms)
            else:
                done.append(item.tag)
                self._count(item, step, outcomes[at])
        await feed.ack(done)

    async def _keep_bodies(self, items: Sequence[_Item], outcomes: Sequence[Outcome]) -> None:
        """Keeps the bodies of messages whose records were made here: those of AMQP clients, or all after a loss."""
        commands: list[tuple[Any, ...]] = []
        for item, outcome in zip(items, outcomes, strict=True):
            if outcome.verdict == "made" or (outcome.verdict == "hold" and item.copy.epoch == 0):
                key = self._records.keys.record(item.copy.topic, item.copy.id)[1]
                packed = envelopes.pack(item.copy.envelope, self._keep_body_max)
                left_ms = outcome.found.forget_ms - outcome.now_ms
                if packed:
                    commands.append(("SET", key, packed, *(("PX", left_ms) if left_ms > 0 else ()), "NX"))
        if commands:
            await self._store.commands(commands)

    async def _refuse(self, feed: Feed, one: _Refused) -> None:
        await self._ways.refuse(one.message, one.reason)
        log.warning("checkpoint.refused", reason=one.reason)
        metrics.REFUSED.inc()
        await feed.ack([one.tag])

    def _count(self, item: _Item, step: Step, outcome: Outcome) -> None:
        topic = item.copy.topic
        match step.counts:
            case "released":
                metrics.released(topic, self._store.clock.now_ms() - max(item.copy.due_ms, outcome.found.due_ms))
            case "ghost":
                metrics.GHOSTS.add(topic)
            case "expired":
                metrics.EXPIRED.add(topic)
            case "dead":
                metrics.DEAD.add(topic)
            case "retried":
                metrics.RETRIED.add(topic)
