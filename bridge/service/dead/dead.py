"""Lists, replays and drops dead letters.

Until a dead letter is replayed or dropped, it stays in its queue. The queue is `dead.<topic>`. A message that its
target exchange did not take is in `delay.unroutable`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from bridge.broker.ready.taken import Taken
from bridge.model.bulk import Target
from bridge.model.errors import BodyNotKept, NotFound, QueueMissing, Stopping
from bridge.model.message import Copy, Message, State
from bridge.model.values import Effective, Page
from bridge.service.context import Context
from bridge.service.dead.batches import DeadLetters, always, target_of
from bridge.service.dead.letters import LETTER_LOST, Letters
from bridge.service.dead.taken_ids import (
    DeadLetterVerdict,
    Decide,
    Sight,
    is_settled,
    possible_ids,
    search_then_settle,
    sight,
)
from bridge.service.known_topics import KnownTopics
from bridge.service.protocol.arrivals import Arrivals
from bridge.service.protocol.deliveries import Held, settle
from bridge.service.protocol.steps import Step, named
from bridge.service.protocol.succession import Succession
from bridge.service.reading.lookup import Lookup
from bridge.service.topics.unroutable import Unroutable
from bridge.store.messages.outcomes import Outcome
from bridge.store.messages.verdicts import DropVerdict

_GROUP = 100
_SEARCHED = 500  # the most dead letters that one search of the shared queue finds; it also reads those of other topics

# All tries together last longer than RabbitMQ takes to write a requeue to a slow disk. They are bounded, because a
# consumer may have taken the dead letter.
_COUNTED_TRIES = 20
_COUNTED_PAUSE_S = 0.01


class Dead:
    def __init__(self, context: Context, lookup: Lookup, known_topics: KnownTopics) -> None:
        self._store = context.store
        self._records = context.records
        self._succession = Succession.of_calls(context)
        self._topics = context.topics
        self._declared = context.broker.declared
        self._taker = context.broker.taker
        self._lookup = lookup
        self._known = known_topics
        self._letters = Letters(context)
        self._arrivals = Arrivals(context)
        self._dead_letters = DeadLetters(context)
        self._unroutable = Unroutable(context.broker.declared, context.broker.dead_letter_search)
        self._ending = False

    def end_sweeps(self) -> None:
        """Ends each `replay_many` and `drop_many` with the error `Stopping`, before it takes further dead letters. The
        process is about to end."""
        self._ending = True

    async def page(self, topic: str, *, limit: int, cursor: str | None) -> Page:
        """Returns a page of dead letters by due moment. Messages that ended because their time to live passed are left
        out, so a page may have fewer than `limit`. `cursor`: the `next_cursor` of the previous page; None: the first
        page.

        Raises:
            InvalidRequest: no page gave this cursor.
            StoreUnavailable: Redis did not answer.
        """
        page = await self._lookup.page(
            topic, states=[State.DEAD], due_after_ms=None, due_before_ms=None, limit=limit, cursor=cursor
        )
        return replace(page, items=[message for message in page.items if message.record.is_dead_letter])

    async def check_topic(self, topic: str) -> None:
        """Checks that the topic exists in Redis or RabbitMQ. RabbitMQ may have dead letters of a topic that Redis no
        longer lists.

        Raises:
            NotFound: the topic does not exist.
            Unavailable: RabbitMQ or Redis is away.
        """
        if not await self._known.of([topic]):
            raise NotFound(f"there is no topic {topic!r}")

    async def size(self, topic: str) -> int:
        """Returns how many messages RabbitMQ counts as ready in the queue `dead.<topic>`; 0 if there is no such queue.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        """
        try:
            return await self._declared.depth(self._declared.dead_queue(topic))
        except QueueMissing:
            return 0

    async def head(self, topic: str) -> str | None:
        """Returns the present id of the first dead letter in the queue `dead.<topic>`, with which `replay_many` and
        `drop_many` begin. None: this queue is empty or missing.

        Raises:
            Unavailable: RabbitMQ or Redis is away.
        """
        await self._store.learn_clock(self._records.keys.homes(topic))
        if not await self._may_have_letters(topic):
            return None
        try:
            taken = await self._taker.take(self._declared.dead_queue(topic), 1)
            for delivery in taken:
                delivery.requeue()
                await self._until_counted(topic)
        except QueueMissing:
            return None
        if not taken:
            return None
        letter = self._letters.copy(topic, taken[0])
        for message in await self._lookup.get_many(topic, possible_ids(letter)):
            if message is not None and sight(letter, message.record) is Sight.LETTER:
                return message.record.id
        return letter.id

    async def _until_counted(self, topic: str) -> None:
        """Waits until RabbitMQ counts a requeued dead letter, because it does not confirm a requeue. Otherwise the
        caller's next call could find no dead letter."""
        for _ in range(_COUNTED_TRIES):
            if await self.size(topic):
                break
            await asyncio.sleep(_COUNTED_PAUSE_S)

    async def replay(self, topic: str, message_id: str) -> Message:
        """Makes a dead letter due again, with its attempts counted from zero.

        Raises:
            NotFound: there is no such dead letter.
            BodyNotKept: the copy is no longer in the queue, and Redis does not have the body.
            Unavailable: RabbitMQ or Redis is away.
        """
        message = await self._dead(topic, message_id)
        settled = await self._dead_letters.replay_one(message)
        if settled is None:
            await self._dead(topic, message_id)  # another call may have settled it during the search
            raise BodyNotKept(LETTER_LOST)
        if not is_settled(settled.outcome.verdict):
            raise _no_letter(topic, message_id)
        return Message(record=settled.outcome.found, envelope=settled.envelope)

    async def replay_many(
        self, topic: str, limit: int, *, max_retry: int | None = None, ttl_ms: int | None = None
    ) -> int:
        """Replays up to `limit` dead letters, and returns how many it replayed. First come those in `dead.<topic>`,
        then those in `delay.unroutable`, the oldest first. Unless the topic is paused, the call then waits, for a
        second at most, until a pull can find the last replayed messages.

        `max_retry`: the retry limit of the replayed messages; None: their limit stays. `ttl_ms`: the time to live of
        the replayed messages in ms, from now on; None: for ever.

        Raises:
            Unavailable: a server did not answer, or the process is about to end. Some dead letters may be replayed.
        """

        to_topic: list[Copy] = []

        def replay(letter: Copy) -> Step[DeadLetterVerdict]:
            step = self._letters.replay(letter, max_retry=max_retry, ttl_ms=ttl_ms)
            if letter.envelope.target is None:
                to_topic.append(step.publication.copy)
            return step

        outcomes = await self._sweep(topic, limit, replay)
        replayed = {(one.found.id, one.found.epoch) for one in outcomes if is_settled(one.verdict)}
        if replayed and not (await self._topics.policy(topic)).paused:
            # The checkpoint releases the copies in this order. So once the last ones have arrived, most earlier ones
            # have too.
            await self._arrivals.until_noted([copy for copy in to_topic[-_GROUP:] if (copy.id, copy.epoch) in replayed])
        lost = await self._without_copy(topic, limit - len(replayed))
        results = await self._dead_letters.replay(lost, always, replay)
        return len(replayed) + sum(failure is None for failure in results.values())

    async def drop(self, topic: str, message_id: str) -> Message:
        """Drops a dead letter, and returns its message without the content.

        Raises:
            NotFound: there is no such dead letter.
            Unavailable: RabbitMQ or Redis is away.
        """
        message = await self._dead(topic, message_id)
        settled = await self._dead_letters.drop_one(message)
        if not is_settled(settled.outcome.verdict):
            raise _no_letter(topic, message_id)
        return Message(record=settled.outcome.found, envelope=None)

    async def drop_many(self, topic: str, limit: int) -> int:
        """Drops up to `limit` dead letters, and returns how many it dropped. First come those in `dead.<topic>`, then
        those in `delay.unroutable`, the oldest first.

        Raises:
            Unavailable: a server did not answer, or the process is about to end. Some dead letters may be dropped.
        """
        outcomes = await self._sweep(topic, limit, self._letters.drop)
        # Redis has no record of an unknown dead letter, but its copy is dropped.
        unknown = sum(outcome.verdict is DropVerdict.UNKNOWN for outcome in outcomes)
        done = unknown + sum(is_settled(outcome.verdict) for outcome in outcomes)
        results = await self._dead_letters.drop(await self._without_copy(topic, limit - done), always)
        return done + sum(failure is None for failure in results.values())

    async def _without_copy(self, topic: str, most: int) -> list[Target]:
        """Returns dead letters that Redis lists while their queue is empty or missing: somebody has purged or deleted
        it. Their records are enough for a drop, and for a replay if Redis kept their bodies."""
        if most <= 0 or await self.size(topic):
            return []
        listed = await self.page(topic, limit=most, cursor=None)
        return [target_of(message.record) for message in listed.items]

    async def _sweep(self, topic: str, limit: int, decide: Decide) -> list[Outcome[DeadLetterVerdict]]:
        """Takes up to `limit` dead letters in groups, and performs for each the step that `decide` returns.

        Raises:
            Unavailable: a server did not answer. The steps of some dead letters may be done; the other dead letters are
                back in the queue.
        """
        await self._store.learn_clock(self._records.keys.homes(topic))
        policy = await self._topics.policy(topic)
        if not await self._known.of([topic]):
            return []
        held: list[Taken] = []
        try:
            outcomes = await self._sweep_own(topic, limit, decide, policy, held)
            return outcomes + await self._sweep_unroutable(topic, limit - len(outcomes), decide, policy)
        finally:
            for delivery in held:
                delivery.requeue()

    async def _sweep_own(
        self, topic: str, limit: int, decide: Decide, policy: Effective, held: list[Taken]
    ) -> list[Outcome[DeadLetterVerdict]]:
        """Takes dead letters out of the topic's own dead-letter queue, and performs the steps that `decide` returns.
        `held`: the method appends deliveries that must not be settled yet to this list."""
        outcomes: list[Outcome[DeadLetterVerdict]] = []
        left = limit if await self._may_have_letters(topic) else 0
        while left > 0:
            self._check_stop()
            try:
                taken = await self._taker.take(self._declared.dead_queue(topic), min(left, _GROUP))
            except QueueMissing:
                self._known.forget([topic])
                break
            if not taken:
                break
            left -= len(taken)
            outcomes += await self._settle(topic, taken, decide, policy, held)
        return outcomes

    async def _sweep_unroutable(
        self, topic: str, limit: int, decide: Decide, policy: Effective
    ) -> list[Outcome[DeadLetterVerdict]]:
        """Takes dead letters of the topic out of `delay.unroutable`, the queue that all topics share, and performs the
        steps that `decide` returns. The search requeues deliveries that must not be settled yet."""
        outcomes: list[Outcome[DeadLetterVerdict]] = []
        while (left := limit - len(outcomes)) > 0 and not await self._unroutable.is_empty():
            self._check_stop()
            async with self._unroutable.of(topic, most=min(left, _SEARCHED)) as taken:
                outcomes += await self._settle(topic, taken, decide, policy, [])
            if len(taken) < min(left, _SEARCHED):
                break
        return outcomes

    def _check_stop(self) -> None:
        if self._ending:
            raise Stopping

    async def _settle(
        self, topic: str, taken: list[Taken], decide: Decide, policy: Effective, held: list[Taken]
    ) -> list[Outcome[DeadLetterVerdict]]:
        letters = [self._letters.of(topic, delivery, policy) for delivery in taken]
        works = [search_then_settle(self._records, letter, decide) for letter in letters]
        settled = await settle(self._succession, taken, works)
        held += (one for one, settlement in zip(taken, settled, strict=True) if isinstance(settlement, Held))
        return [named(settlement.result) for settlement in settled]

    async def _may_have_letters(self, topic: str) -> bool:
        """Returns False if the topic certainly has no dead letters in its queue. Asks over a channel of its own:
        RabbitMQ closes a channel after a get from a missing queue, and other calls use the taker's channels.

        Raises:
            Unavailable: RabbitMQ or Redis is away.
        """
        if self._declared.has_dead(topic):
            return True
        try:
            depth = await self._declared.depth(self._declared.dead_queue(topic))
        except QueueMissing:
            return False
        if depth:
            return True
        # RabbitMQ also counts no messages while a queue has no leader. A get from a new queue would end the connection
        # then (541, noproc). If the queue is old, Redis lists its dead letters. Redis also lists those of a deleted
        # queue, which this process may be declaring again.
        page = await self._lookup.page(
            topic, states=[State.DEAD], due_after_ms=None, due_before_ms=None, limit=1, cursor=None
        )
        if page.items:
            await self._declared.ensure_dead(topic)
        return bool(page.items)

    async def _dead(self, topic: str, message_id: str) -> Message:
        message = await self._lookup.get(topic, message_id)
        if not message.record.is_dead_letter:
            raise _no_letter(topic, message_id)
        return message


def _no_letter(topic: str, message_id: str) -> NotFound:
    return NotFound(f"there is no dead letter {message_id!r} in the topic {topic!r}")
