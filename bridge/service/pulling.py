"""Pulls: takes messages from ready queues and leases them; if there are none, waits for the first."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from bridge.broker.ready.taken import Taken
from bridge.model.errors import BrokerUnavailable, QueueMissing, Unavailable
from bridge.model.values import Leased
from bridge.service.context import Context
from bridge.service.known_topics import KnownTopics
from bridge.service.leasing import LeaseMs, LeaseTerms, Leasing


class Pulling:
    def __init__(self, context: Context, known_topics: KnownTopics) -> None:
        self._store = context.store
        self._records = context.records
        self._declared = context.broker.declared
        self._taker = context.broker.taker
        self._long_poll = context.broker.long_poll
        self._check_broker = context.broker.check
        self._topics = context.topics
        self._known = known_topics
        self._leasing = Leasing(context)
        self._checked_within_s = context.settings.answer_within_s
        self._under_way: set[asyncio.Task[list[Leased]]] = set()
        self._ending = asyncio.Event()

    async def pull(
        self, topics: Sequence[str], *, limit: int, wait_ms: int, lease_ms: LeaseMs, counted: bool = True
    ) -> list[Leased]:
        """Leases up to `limit` messages, from an earlier topic before a later one. If there are none, waits up to
        `wait_ms` for the first. Without `counted` these deliveries use up no retries.

        A caller that goes away (is cancelled) while it waits leaves the messages to the next caller.

        Raises:
            Unavailable: nothing was leased.
        """
        # Both servers are checked before a take: RabbitMQ counts a message that is taken and put back as delivered.
        try:
            async with asyncio.timeout(self._checked_within_s):
                await self._store.learn_clock([key for topic in topics for key in self._records.keys.homes(topic)])
                await self._check_broker()
        except TimeoutError:
            raise BrokerUnavailable("RabbitMQ did not answer in time") from None
        until_s = monotonic() + wait_ms / 1_000
        terms = LeaseTerms(lease_ms, counted)
        while True:
            leased: list[Leased] = []
            try:
                existing = await self._known.of(topics)
                leased = await self._kept(self._take(existing, limit, terms))
                left_ms = (until_s - monotonic()) * 1_000
                if not leased and left_ms > 0 and not self._ending.is_set():
                    missing = [topic for topic in topics if topic not in existing]
                    leased = await self._wait(existing, missing, limit, int(left_ms), terms)
                    if 0 < len(leased) < limit:
                        leased += await self._kept(self._take(existing, limit - len(leased), terms))
            except QueueMissing:
                # Somebody removed a topic, or an operator deleted a ready queue.
                self._known.forget(topics)
            except Unavailable:
                # Messages that are leased already have to be handed out.
                if not leased:
                    raise
            if leased or monotonic() >= until_s or self._ending.is_set():
                return leased

    @property
    def draining(self) -> bool:
        """Whether pulls no longer wait, because the process is about to end."""
        return self._ending.is_set()

    def end_waits(self) -> None:
        """Answers waiting pulls now, and further pulls without waiting."""
        self._ending.set()
        self._known.wake_all()

    async def _kept(self, leasing: Coroutine[Any, Any, list[Leased]]) -> list[Leased]:
        """Finishes the leases also when the caller goes away, so that no delivery stays unacknowledged."""
        task = asyncio.create_task(leasing)
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[list[Leased]]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as retrieved: asyncio logs errors for which no caller waits any more

    async def _take(self, topics: Sequence[str], limit: int, terms: LeaseTerms) -> list[Leased]:
        leased: list[Leased] = []
        for topic in topics:
            policy = await self._topics.policy(topic)
            while not policy.paused and len(leased) < limit:
                try:
                    taken = await self._taker.take(self._declared.ready_queue(topic), limit - len(leased))
                    if not taken:
                        break
                    leased += await self._leasing.lease(topic, taken, terms, policy)
                except Unavailable:
                    if leased:
                        return leased
                    raise
        return leased

    async def _wait(
        self, existing: Sequence[str], missing: Sequence[str], limit: int, wait_ms: int, terms: LeaseTerms
    ) -> list[Leased]:
        """Returns early and empty if a missing topic has come into being."""
        with self._known.awaiting(missing) as woken:
            open_topics = [topic for topic in existing if not (await self._topics.policy(topic)).paused]
            if not open_topics:
                # A paused topic may be resumed while a pull waits, so the pull looks again every second.
                pause_ms = min(wait_ms, 1_000) if existing else wait_ms
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_ms / 1_000):
                        await woken.wait()
                return []
            queues = {self._declared.ready_queue(topic): topic for topic in open_topics}
            arrived = await self._long_poll.wait(list(queues), wait_ms, woken)
        taken = sorted(arrived, key=lambda delivery: list(queues).index(delivery.queue))
        return await self._kept(self._lease_first(taken, limit, queues, terms))

    async def _lease_first(
        self, taken: list[Taken], limit: int, topics: dict[str, str], terms: LeaseTerms
    ) -> list[Leased]:
        """Leases up to `limit` deliveries one by one, and gives back the others. `topics`: by queue."""
        if taken[limit:]:
            await self._give_back(taken[limit:], topics)
        leased: list[Leased] = []
        for at, delivery in enumerate(taken[:limit]):
            topic = topics[delivery.queue]
            try:
                leased += await self._leasing.lease(topic, [delivery], terms, await self._topics.policy(topic))
            except Unavailable:
                await self._give_back(taken[at + 1 : limit], topics)
                if not leased:
                    raise
                break
        return leased

    async def _give_back(self, taken: list[Taken], topics: dict[str, str]) -> None:
        await self._leasing.give_back([(topics[delivery.queue], delivery) for delivery in taken])
