"""Lists, replays and drops dead letters, which stay in their queue until then.

The queue is `dead.<topic>`, or `delay.unroutable` for messages that their targets did not take.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from bridge.broker.ready.taken import Taken
from bridge.model.errors import BodyNotKept, NotFound, QueueMissing
from bridge.model.message import Copy, Envelope, Message, State, aside_id
from bridge.model.values import Page, Policy
from bridge.service.context import Context
from bridge.service.known_topics import KnownTopics
from bridge.service.letters import LETTER_LOST, Letters
from bridge.service.lookup import Lookup
from bridge.service.succession import Step, Succession, named
from bridge.service.successors import first_copy
from bridge.service.taken_ids import Decide, followed, sought
from bridge.service.unroutable import Unroutable
from bridge.store.outcomes import Outcome
from bridge.store.verdicts import Verdict

_GROUP = 100
_SEARCHED = 500  # letters found by one search, which reads those of other topics too

# In all longer than RabbitMQ takes to write a requeue to a slow disk. A consumer may also have taken the letter.
_COUNTED_TRIES = 20
_COUNTED_PAUSE_S = 0.01


class Dead:
    def __init__(self, context: Context, lookup: Lookup, known_topics: KnownTopics) -> None:
        self._store = context.store
        self._records = context.records
        self._succession = Succession(context.store, context.broker.copy_publisher)
        self._topics = context.topics
        self._declared = context.broker.declared
        self._taker = context.broker.taker
        self._dead_letter_search = context.broker.dead_letter_search
        self._lookup = lookup
        self._known = known_topics
        self._letters = Letters(context)
        self._unroutable = Unroutable(context.broker.declared, context.broker.dead_letter_search)

    async def page(self, topic: str, *, limit: int, cursor: str | None) -> Page:
        """Lists dead letters by due moment. Messages that ended because their time to live passed are left out.

        Raises:
            InvalidRequest, StoreUnavailable
        """
        page = await self._lookup.page(
            topic, states=[State.DEAD], due_after_ms=None, due_before_ms=None, limit=limit, cursor=cursor
        )
        return replace(page, items=[message for message in page.items if message.record.is_letter])

    async def check_topic(self, topic: str) -> None:
        """Returns if the topic exists: a topic that Redis no longer lists may have dead letters in RabbitMQ.

        Raises:
            NotFound: it does not.
            Unavailable
        """
        if not await self._known.of([topic]):
            raise NotFound(f"there is no topic {topic!r}")

    async def size(self, topic: str) -> int:
        """Counts the letters in the dead-letter queue; 0 where the topic does not exist.

        Raises:
            BrokerUnavailable
        """
        try:
            return await self._declared.depth(self._declared.dead_queue(topic))
        except QueueMissing:
            return 0

    async def head(self, topic: str) -> str | None:
        """Returns the id of the letter that `replay_many` and `drop_many` begin with.

        Raises:
            Unavailable
        """
        await self._store.learn_clock(self._records.keys.homes(topic))
        try:
            taken = await self._taker.take(self._declared.dead_queue(topic), 1)
            for delivery in taken:
                await delivery.requeue()
                await self._until_counted(topic)
        except QueueMissing:
            return None
        if not taken:
            return None
        letter = self._letters.copy(topic, taken[0])
        aside = aside_id(letter.id, letter.nonce)
        (found,) = await self._lookup.get_many(topic, [aside])
        return aside if found is not None and found.record.is_letter else letter.id

    async def _until_counted(self, topic: str) -> None:
        """Waits until RabbitMQ counts a requeued letter, as it does not confirm a requeue. Otherwise the caller's next
        question could find no letter."""
        for _ in range(_COUNTED_TRIES):
            if await self.size(topic):
                break
            await asyncio.sleep(_COUNTED_PAUSE_S)

    async def replay(self, topic: str, message_id: str) -> Message:
        """Makes a dead letter due again, with its attempts counted from zero.

        Raises:
            NotFound: there is no such dead letter.
            BodyNotKept: the copy is no longer in the queue, and the body was not kept.
            Unavailable
        """
        message = await self._dead(topic, message_id)
        record = message.record
        policy = await self._topics.policy(topic)
        async with self._find(message) as taken:
            if taken is not None:
                copy = replace(self._letters.of(topic, taken, policy), id=record.id)
            elif message.envelope is not None and message.envelope.body is not None:
                copy = first_copy(record, message.envelope)
            else:
                raise BodyNotKept(LETTER_LOST)
            outcome = await self._succession.perform_one(followed(self._records, copy, taken, self._letters.replay))
        if outcome.verdict is not Verdict.REPLAYED:
            raise _no_letter(topic, message_id)
        return Message(record=outcome.found, envelope=copy.envelope)

    async def replay_many(
        self, topic: str, limit: int, *, max_retry: int | None = None, ttl_ms: int | None = None
    ) -> int:
        """Replays up to `limit` dead letters, the oldest first, and returns how many it replayed.

        `max_retry`, `ttl_ms`: of the messages from now on. None keeps their retries, and gives them no time to live.

        Raises:
            Unavailable: some letters may be replayed.
        """

        def replay(letter: Copy, delivery: Taken | None) -> Step:
            return self._letters.replay(letter, delivery, max_retry=max_retry, ttl_ms=ttl_ms)

        return sum(outcome.verdict is Verdict.REPLAYED for outcome in await self._sweep(topic, limit, replay))

    async def drop(self, topic: str, message_id: str) -> Message:
        """Drops a dead letter.

        Raises:
            NotFound: there is no such dead letter.
            Unavailable
        """
        message = await self._dead(topic, message_id)
        letter = first_copy(message.record, Envelope())
        async with self._find(message) as taken:
            outcome = await self._succession.perform_one(followed(self._records, letter, taken, self._letters.drop))
        if outcome.verdict is not Verdict.DROPPED:
            raise _no_letter(topic, message_id)
        return Message(record=outcome.found, envelope=None)

    async def drop_many(self, topic: str, limit: int) -> int:
        """Drops up to `limit` dead letters, the oldest first, and returns how many it dropped.

        Raises:
            Unavailable: some letters may be dropped.
        """
        return len(await self._sweep(topic, limit, self._letters.drop))

    async def _sweep(self, topic: str, limit: int, decide: Decide) -> list[Outcome]:
        """Takes up to `limit` dead letters in groups and performs the step that `decide` returns for each.

        Raises:
            Unavailable: the steps of some letters may be done; the other letters are back in the queue.
        """
        await self._store.learn_clock(self._records.keys.homes(topic))
        policy = await self._topics.policy(topic)
        if not await self._known.of([topic]):
            return []
        outcomes = await self._sweep_own(topic, limit, decide, policy)
        return outcomes + await self._sweep_unroutable(topic, limit - len(outcomes), decide, policy)

    async def _sweep_own(self, topic: str, limit: int, decide: Decide, policy: Policy) -> list[Outcome]:
        """As `_sweep`, for the topic's own dead-letter queue."""
        outcomes: list[Outcome] = []
        left = limit if await self._may_have_letters(topic) else 0
        while left > 0:
            try:
                taken = await self._taker.take(self._declared.dead_queue(topic), min(left, _GROUP))
            except QueueMissing:
                self._known.forget([topic])
                break
            if not taken:
                break
            left -= len(taken)
            outcomes += await self._settle(topic, taken, decide, policy)
        return outcomes

    async def _sweep_unroutable(self, topic: str, limit: int, decide: Decide, policy: Policy) -> list[Outcome]:
        """As `_sweep`, for the queue that letters of all topics share."""
        outcomes: list[Outcome] = []
        while (left := limit - len(outcomes)) > 0 and not await self._unroutable.is_empty():
            async with self._unroutable.of(topic, most=min(left, _SEARCHED)) as taken:
                outcomes += await self._settle(topic, taken, decide, policy)
            if len(taken) < min(left, _SEARCHED):
                break
        return outcomes

    async def _settle(self, topic: str, taken: list[Taken], decide: Decide, policy: Policy) -> list[Outcome]:
        letters = [self._letters.of(topic, delivery, policy) for delivery in taken]
        results = await self._succession.perform(
            [sought(self._records, *letter, decide) for letter in zip(letters, taken, strict=True)]
        )
        return [named(result) for result in results]

    async def _may_have_letters(self, topic: str) -> bool:
        """Returns False while no letter of the topic has died. It asks over a channel of its own: RabbitMQ closes a
        channel over a get from a missing queue, and others take messages and acknowledge over the taker's channels.

        Raises:
            Unavailable
        """
        if self._declared.has_dead(topic):
            return True
        try:
            depth = await self._declared.depth(self._declared.dead_queue(topic))
        except QueueMissing:
            return False
        if depth:
            return True
        # RabbitMQ also counts no messages while a queue has no leader. A get from a new queue would then end the
        # connection; of an old one, Redis knows the letters.
        page = await self._lookup.page(
            topic, states=[State.DEAD], due_after_ms=None, due_before_ms=None, limit=1, cursor=None
        )
        return bool(page.items)

    async def _dead(self, topic: str, message_id: str) -> Message:
        message = await self._lookup.get(topic, message_id)
        if not message.record.is_letter:
            raise _no_letter(topic, message_id)
        return message

    def _find(self, message: Message) -> AbstractAsyncContextManager[Taken | None]:
        record, envelope = message.record, message.envelope
        targeted = envelope is not None and envelope.target is not None
        queue = self._declared.unroutable_queue if targeted else self._declared.dead_queue(record.topic)
        return self._dead_letter_search.find(queue, lambda taken: self._letters.is_of(record, taken))


def _no_letter(topic: str, message_id: str) -> NotFound:
    return NotFound(f"there is no dead letter {message_id!r} in the topic {topic!r}")
