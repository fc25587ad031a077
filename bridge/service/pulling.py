"""Pull: take from the ready queue, publish the lease copies, lease in Redis, acknowledge, answer.

The lease copy comes due when the lease ends, so a lease lives in the broker and the store: any process may settle it,
and no process has to be there for it to end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from bridge import metrics
from bridge.broker.copies.copies import from_properties
from bridge.broker.publications import Publication, Route, parked_ms
from bridge.broker.ready.taken import Taken, ack_all
from bridge.model.errors import BrokerUnavailable, QueueMissing, StoreUnavailable, Unavailable
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import Copy, CopyKind, Envelope, Message, new_nonce
from bridge.model.values import Leased, Policy
from bridge.service import receipts
from bridge.service.context import Context
from bridge.store.records import Outcome, read

AHEAD_PAUSE_S = 0.01
_AHEAD_TRIES = 5
AHEAD_PARKED_MS = 1_000
LEASE_KIND = CopyKind.LEASE
HOLD_KIND = CopyKind.HOLD

LeaseMs = int | Callable[[Envelope], int | None] | None
"""How long a lease lasts. A function: as the message has it; None, of it too: as the topic says."""


@dataclass(frozen=True, slots=True)
class _Terms:
    """Of the leases of one pull. `counted`: each is a delivery of those allowed."""

    lease_ms: LeaseMs
    counted: bool

    def of(self, envelope: Envelope) -> int | None:
        return self.lease_ms(envelope) if callable(self.lease_ms) else self.lease_ms


@fast_dataclass(frozen=True, slots=True)
class _Candidate:
    taken: Taken
    copy: Copy
    lease_copy: Copy
    lease_ms: int


class Pulling:
    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._records = context.records
        self._copy_publisher = context.broker.copy_publisher
        self._declared = context.broker.declared
        self._taker = context.broker.taker
        self._check_broker = context.broker.check
        self._topics = context.topics
        self._lease_ms = context.settings.lease
        self._max_retry = context.settings.max_retry
        self._checked_within_s = context.settings.answer_within_s
        self._under_way: set[asyncio.Task[list[Leased]]] = set()
        self._ending = asyncio.Event()

    async def pull(
        self, topics: Sequence[str], *, limit: int, wait_ms: int, lease_ms: LeaseMs, counted: bool = True
    ) -> list[Leased]:
        """Leases up to `limit` messages, from an earlier topic before a later one; when there are none, waits. Without
        `counted` these deliveries are none of those that a message's retries allow.

        A caller that goes away (is cancelled) while it waits leaves what was on its way to the next.

        Raises:
            Unavailable: nothing was leased.
        """
        # Asked before anything is taken: what is taken and put back counts as a delivery for the broker.
        try:
            async with asyncio.timeout(self._checked_within_s):
                await self._store.learn_clock([key for topic in topics for key in self._records.keys.homes(topic)])
                await self._check_broker()
        except TimeoutError:
            raise BrokerUnavailable("RabbitMQ did not answer in time") from None
        until_s = monotonic() + wait_ms / 1_000
        terms = _Terms(lease_ms, counted)
        for topic in topics:
            await self._declared.ensure_topic(topic)
        while True:
            leased: list[Leased] = []
            try:
                leased = await self._kept(self._take(topics, limit, terms))
                left_ms = (until_s - monotonic()) * 1_000
                if not leased and left_ms > 0 and not self._ending.is_set():
                    leased = await self._wait(topics, limit, int(left_ms), terms)
                    if 0 < len(leased) < limit:
                        leased += await self._kept(self._take(topics, limit - len(leased), terms))
            except QueueMissing:
                # Somebody deleted a ready queue.
                for topic in topics:
                    await self._declared.renew_topic(topic)
            except Unavailable:
                # What is leased has to be handed out.
                if not leased:
                    raise
            if leased or monotonic() >= until_s or self._ending.is_set():
                return leased

    @property
    def draining(self) -> bool:
        """Nobody waits any longer."""
        return self._ending.is_set()

    def end_waits(self) -> None:
        """Has those that wait answered now, and those that come answered without waiting."""
        self._ending.set()

    async def _kept(self, leasing: Coroutine[Any, Any, list[Leased]]) -> list[Leased]:
        """Goes on when the caller goes away: what is taken is leased, and what is leased is acknowledged."""
        task = asyncio.create_task(leasing)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _take(self, topics: Sequence[str], limit: int, terms: _Terms) -> list[Leased]:
        leased: list[Leased] = []
        for topic in topics:
            policy = await self._topics.policy(topic)
            while not policy.paused and len(leased) < limit:
                try:
                    taken = await self._taker.take(self._declared.ready_queue(topic), limit - len(leased))
                    if not taken:
                        break
                    leased += await self._lease(topic, taken, terms, policy)
                except Unavailable:
                    if leased:
                        return leased
                    raise
        return leased

    async def _wait(self, topics: Sequence[str], limit: int, wait_ms: int, terms: _Terms) -> list[Leased]:
        open_topics = [topic for topic in topics if not (await self._topics.policy(topic)).paused]
        if not open_topics:
            # A paused topic may be opened while a poll waits.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), min(wait_ms, 1_000) / 1_000)
            return []
        queues = {self._declared.ready_queue(topic): topic for topic in open_topics}
        arrived = await self._taker.wait(list(queues), wait_ms, self._ending)
        taken = sorted(arrived, key=lambda one: list(queues).index(one.queue))
        return await self._kept(self._lease_first(taken, limit, queues, terms))

    async def _lease_first(self, taken: list[Taken], limit: int, topics: dict[str, str], terms: _Terms) -> list[Leased]:
        """Leases each by itself; those beyond the limit are given back."""
        await asyncio.gather(*(self._give_back(topics[one.queue], one) for one in taken[limit:]))
        leased: list[Leased] = []
        for at, one in enumerate(taken[:limit]):
            try:
                policy = await self._topics.policy(topics[one.queue])
                leased += await self._lease(topics[one.queue], [one], terms, policy)
            except Unavailable:
                await asyncio.gather(*(self._give_back(topics[rest.queue], rest) for rest in taken[at + 1 : limit]))
                if not leased:
                    raise
                break
        return leased

    async def _lease(self, topic: str, taken: list[Taken], terms: _Terms, policy: Policy) -> list[Leased]:
        """Leases what was taken; whatever is not to be delivered is dropped or put where it belongs."""
        now_ms = int(self._store.clock.now_ms())
        default_ms = policy.lease_ms or self._lease_ms
        copies = [self._copy(topic, one, now_ms) for one in taken]
        leases_ms = [terms.of(copy.envelope) or default_ms for copy in copies]
        candidates = [
            _Candidate(one, copy, _lease_copy(copy, now_ms + lease_ms, counted=terms.counted), lease_ms)
            for one, copy, lease_ms in zip(taken, copies, leases_ms, strict=True)
        ]
        errors = await self._copy_publisher.publish(
            [
                Publication(
                    copy=one.lease_copy,
                    route=Route.WHEEL,
                    left_ms=one.lease_ms,
                    exact=False,
                    kind=LEASE_KIND,
                    shares=True,
                )
                for one in candidates
            ]
        )
        published = [one for one, error in zip(candidates, errors, strict=True) if error is None]
        failed = [(one, error) for one, error in zip(candidates, errors, strict=True) if error is not None]
        await asyncio.gather(*(self._give_back(topic, one.taken) for one, _ in failed))
        if not published:
            raise failed[0][1]
        try:
            outcomes = await self._outcomes(published, counted=terms.counted)
        except StoreUnavailable:
            await asyncio.gather(*(self._give_back(topic, one.taken) for one in published))
            raise
        leased: list[Leased] = []
        settled: list[Taken] = []
        for one, outcome in zip(published, outcomes, strict=True):
            if await self._settled(one, outcome):
                settled.append(one.taken)
            if outcome.verdict == "leased":
                metrics.DELIVERED.add(topic)
                record = outcome.found
                leased.append(
                    Leased(
                        message=Message(record=record, envelope=one.copy.envelope),
                        receipt=receipts.make(record.epoch, record.id),
                    )
                )
        await ack_all(settled)
        return leased

    async def _outcomes(self, candidates: list[_Candidate], *, counted: bool) -> list[Outcome]:
        """Asks Redis; a copy that is newer than its record was published a moment before it is named, so again."""
        outcomes: dict[int, Outcome] = {}
        asked = list(range(len(candidates)))
        for attempt in range(_AHEAD_TRIES):
            if attempt:
                await asyncio.sleep(AHEAD_PAUSE_S)
            answers = await self._store.run(
                [
                    self._records.lease(
                        candidates[at].copy,
                        next_nonce=candidates[at].lease_copy.nonce,
                        lease_ms=candidates[at].lease_ms,
                        arrives_in_ms=parked_ms(candidates[at].lease_ms, exact=False),
                        counted=counted,
                    )
                    for at in asked
                ]
            )
            for at, answer in zip(asked, answers, strict=True):
                outcomes[at] = read(candidates[at].copy.topic, candidates[at].copy.id, answer)
            asked = [at for at in asked if outcomes[at].verdict == "ahead"]
            if not asked:
                break
        return [outcomes[at] for at in range(len(candidates))]

    async def _settled(self, one: _Candidate, outcome: Outcome) -> bool:
        """Whether the copy that was taken has done its part; false where it had to be put back as it was."""
        if outcome.verdict == "ghost":
            metrics.GHOSTS.add(one.copy.topic)
        elif outcome.verdict == "expired":
            metrics.EXPIRED.add(one.copy.topic)
        elif outcome.verdict in ("hold", "ahead"):
            ahead = outcome.verdict == "ahead"
            copy = replace(one.copy, asked=one.copy.asked + 1) if ahead else one.copy
            left_ms = AHEAD_PARKED_MS if ahead else outcome.extra
            parked = Publication(copy=copy, route=Route.WHEEL, left_ms=left_ms, kind=HOLD_KIND)
            (error,) = await self._copy_publisher.publish([parked])
            if error is not None:
                await one.taken.requeue()
                return False
        return True

    async def _give_back(self, topic: str, taken: Taken) -> None:
        """Puts it back behind the others, as a new publish: a requeue would count as a delivery."""
        copy = self._copy(topic, taken, int(self._store.clock.now_ms()))
        (error,) = await self._copy_publisher.publish(
            [Publication(copy=copy, route=Route.READY, live_for_ms=taken.live_for_ms)]
        )
        if error is None:
            await taken.ack()
        else:
            await taken.requeue()

    def _copy(self, topic: str, taken: Taken, now_ms: int) -> Copy:
        return from_properties(topic, taken.properties, taken.message.body, now_ms=now_ms, max_retry=self._max_retry)


def _lease_copy(copy: Copy, due_ms: int, *, counted: bool) -> Copy:
    return replace(
        copy,
        epoch=max(copy.epoch, 1) + 1,
        nonce=new_nonce(),
        attempt=copy.attempt + counted,
        due_ms=due_ms,
        asked=0,
    )
