"""Replays and drops dead letters, one at a time or in batches. One search of a topic's dead-letter queue finds a whole
batch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from bridge.broker.ready.taken import Taken
from bridge.model.bulk import Failure, Target
from bridge.model.message import Copy, Envelope, Message, Record, State
from bridge.service.context import Context
from bridge.service.dead.letters import LETTER_LOST, Letters, key
from bridge.service.dead.taken_ids import DeadLetterVerdict, Decide, is_settled, settle_then_search
from bridge.service.protocol.deliveries import settle
from bridge.service.protocol.steps import named
from bridge.service.protocol.succession import Succession
from bridge.service.protocol.successors import first_copy
from bridge.service.reading.lookup import Lookup
from bridge.service.results import BURST, Check, Results, failure, is_of
from bridge.store.messages.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class _OfTopic:
    """The targets of one topic, each with its record. `letters`: the targets that are still dead letters. `others`: all
    other targets; None: Redis has no record.

    `is_targeted`: the messages are known to have a target, so they are not in their topic's dead-letter queue.
    """

    topic: str
    letters: dict[Target, Record] = field(default_factory=dict)
    others: dict[Target, Record | None] = field(default_factory=dict)
    is_targeted: bool = False


class Settled(NamedTuple):
    """The result of a call to replay or drop one dead letter. `outcome`: the answer of Redis. `envelope`: the dead
    letter's content; empty for a drop."""

    outcome: Outcome[DeadLetterVerdict]
    envelope: Envelope


class DeadLetters:
    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._records = context.records
        self._topics = context.topics
        self._declared = context.broker.declared
        self._search = context.broker.dead_letter_search
        self._succession = Succession.of_calls(context)
        self._letters = Letters(context)
        self._lookup = Lookup(context)

    async def replay(self, targets: Sequence[Target], check: Check, decide: Decide | None = None) -> Results:
        """Makes dead letters due again. Returns for each target why it could not be replayed; None if it was replayed.
        A dead letter that another call has replayed since it was found also counts as replayed.

        `check`: called before each burst of publishes; raises an error to stop the call. `decide`: builds the step for
        each dead letter; None: `Letters.replay` builds it.

        Raises:
            Unavailable: a server did not answer; some dead letters may be replayed.
            Exception: the error of `check`; some dead letters may be replayed.
        """
        results: Results = {}
        for of in await self._by_topic(targets):
            for target, record in of.others.items():
                is_replayed = record is not None and is_of(target, record) and record.epoch > target.epoch
                results[target] = None if is_replayed else failure(target, record)
            results |= _results(await self._replay(of, decide or self._letters.replay, check))
        return results

    async def replay_one(self, letter: Message) -> Settled | None:
        """Makes a dead letter due again, and returns the result. Returns None if neither RabbitMQ nor Redis has the
        body any more. `letter`: the message that was looked up.

        Raises:
            Unavailable: RabbitMQ or Redis is away.
        """
        (settled,) = (await self._replay(_alone(letter), self._letters.replay, always)).values()
        return settled

    async def drop(self, targets: Sequence[Target], check: Check) -> Results:
        """Drops dead letters. Returns for each target why it could not be dropped; None if it was dropped. A dead
        letter that is already deleted counts as dropped. `check`: called before each burst of changes; raises an error
        to stop the call.

        Raises:
            Unavailable: a server did not answer; some dead letters may be dropped.
            Exception: the error of `check`; some dead letters may be dropped.
        """
        results: Results = {}
        for of in await self._by_topic(targets):
            for target, record in of.others.items():
                is_dropped = record is not None and is_of(target, record) and record.state is State.DELETED
                results[target] = None if is_dropped else failure(target, record)
            results |= _results(await self._drop(of, check))
        return results

    async def drop_one(self, letter: Message) -> Settled:
        """Drops a dead letter, and returns the result. `letter`: the message that was looked up.

        Raises:
            Unavailable: RabbitMQ or Redis is away.
        """
        (settled,) = (await self._drop(_alone(letter), always)).values()
        return settled

    async def _replay(self, of: _OfTopic, decide: Decide, check: Check) -> dict[Target, Settled | None]:
        async with self._taken(of) as found:
            copies = await self._copies(of.topic, of.letters, found)
            settled = await self._settle(copies, found, decide, check)
        return {target: settled.get(target) for target in of.letters}

    async def _drop(self, of: _OfTopic, check: Check) -> dict[Target, Settled]:
        async with self._taken(of) as found:
            copies = {target: first_copy(record, Envelope()) for target, record in of.letters.items()}
            return await self._settle(copies, found, self._letters.drop, check)

    async def _by_topic(self, targets: Sequence[Target]) -> list[_OfTopic]:
        """Reads the records of the targets, and groups the targets by topic and by whether they are still dead
        letters."""
        weighed = await self._store.run([self._records.weigh(target.topic, target.id) for target in targets])
        by_topic: dict[str, _OfTopic] = {}
        for target, outcome in zip(targets, weighed, strict=True):
            record = outcome.record
            of_topic = by_topic.setdefault(target.topic, _OfTopic(target.topic))
            if record is not None and record.is_dead_letter and is_of(target, record) and record.epoch == target.epoch:
                of_topic.letters[target] = record
            else:
                of_topic.others[target] = record
        return list(by_topic.values())

    @asynccontextmanager
    async def _taken(self, of: _OfTopic) -> AsyncIterator[dict[Target, Taken]]:
        """Takes the dead letters out of their queue. At the end of the context, RabbitMQ requeues the unacknowledged
        dead letters."""
        if not of.letters:
            yield {}
            return
        targets = {key(record.id, record.epoch, record.nonce): target for target, record in of.letters.items()}
        found: dict[Target, Taken] = {}

        def is_wanted(taken: Taken) -> bool:
            copy = self._letters.copy(of.topic, taken)
            target = targets.get(key(copy.id, copy.epoch, copy.nonce))
            if target is None or target in found:
                return False
            found[target] = taken
            return True

        async with AsyncExitStack() as searches:
            # Dead letters with a target are in a queue that all topics share.
            queues: list[tuple[str, Callable[[], Awaitable[None]]]] = [
                (self._declared.dead_queue(of.topic), partial(self._declared.ensure_dead, of.topic)),
                (self._declared.unroutable_queue, self._declared.wheel.ensure),
            ]
            for queue, ensure in reversed(queues) if of.is_targeted else queues:
                if left := len(of.letters) - len(found):
                    search = self._search.find_many(queue, is_wanted, most=left, ensure=ensure)
                    await searches.enter_async_context(search)
            yield found

    async def _copies(
        self, topic: str, letters: Mapping[Target, Record], found: Mapping[Target, Taken]
    ) -> dict[Target, Copy]:
        """Returns the dead letters with their bodies. A body comes from the queue, or from Redis if the dead letter is
        no longer in the queue. Leaves out a dead letter if neither the queue nor Redis has its body."""
        policy = await self._topics.policy(topic)
        copies = {
            target: replace(self._letters.of(topic, taken, policy), id=target.id) for target, taken in found.items()
        }
        missing = [target for target in letters if target not in found]
        kept = await self._lookup.get_many(topic, [target.id for target in missing])
        for target, message in zip(missing, kept, strict=True):
            if message is not None and message.envelope is not None and message.envelope.body is not None:
                copies[target] = first_copy(letters[target], message.envelope)
        return copies

    async def _settle(
        self, copies: Mapping[Target, Copy], found: Mapping[Target, Taken], decide: Decide, check: Check
    ) -> dict[Target, Settled]:
        settled: dict[Target, Settled] = {}
        targets = [*copies]
        for start in range(0, len(targets), BURST):
            check()
            some = targets[start : start + BURST]
            queued = {
                target: settle_then_search(self._records, copies[target], decide) for target in some if target in found
            }
            gone = {target: decide(copies[target]) for target in some if target not in found}
            deliveries = [found[target] for target in queued]
            done = await settle(self._succession, deliveries, [*queued.values()])
            results = dict(zip(queued, [settlement.result for settlement in done], strict=True))
            results |= zip(gone, await self._succession.perform([*gone.values()]), strict=True)
            for target, result in results.items():
                settled[target] = Settled(named(result), copies[target].envelope)
        return settled


def target_of(record: Record) -> Target:
    return Target(record.topic, record.id, record.created_ms, record.epoch, record.state)


def _alone(letter: Message) -> _OfTopic:
    is_targeted = letter.envelope is not None and letter.envelope.target is not None
    return _OfTopic(letter.record.topic, {target_of(letter.record): letter.record}, is_targeted=is_targeted)


def always() -> None:
    """A `check` that never stops a call."""


def _results(settled: Mapping[Target, Settled | None]) -> Results:
    return {target: _result(target, one) for target, one in settled.items()}


def _result(target: Target, settled: Settled | None) -> Failure | None:
    if settled is None:
        return Failure(target.topic, target.id, LETTER_LOST)
    verdict, record = settled.outcome.verdict, settled.outcome.record
    return None if is_settled(verdict) else failure(target, record)
