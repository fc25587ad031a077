"""Replays and drops dead letters in batches: one search of a topic's dead-letter queue finds all of a batch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

from bridge.broker.ready.taken import Taken
from bridge.model.bulk import Failure, Target
from bridge.model.message import Copy, Envelope, Record, State, taken_id
from bridge.service.bulk.results import BURST, Results, failure, is_of
from bridge.service.context import Context
from bridge.service.letters import LETTER_LOST, Letters
from bridge.service.lookup import Lookup
from bridge.service.succession import Step, Succession, named
from bridge.service.successors import first_copy
from bridge.service.taken_ids import followed
from bridge.store.outcomes import outcome_of
from bridge.store.verdicts import Verdict

_Key = tuple[str, int, int]
"""What tells the copies in a dead-letter queue apart: id, epoch and nonce."""


@dataclass(frozen=True, slots=True)
class _OfTopic:
    """The targets of one topic: those that are still dead letters with their records, and the others."""

    topic: str
    letters: dict[Target, Record] = field(default_factory=dict)
    others: dict[Target, Record | None] = field(default_factory=dict)


class DeadLetters:
    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._records = context.records
        self._topics = context.topics
        self._declared = context.broker.declared
        self._search = context.broker.dead_letter_search
        self._succession = Succession(context.store, context.broker.copy_publisher)
        self._letters = Letters(context)
        self._lookup = Lookup(context)

    async def replay(self, targets: Sequence[Target]) -> Results:
        """Makes dead letters due again. One that was replayed since it was found counts as replayed.

        Raises:
            Unavailable: some may be replayed.
        """
        results: Results = {}
        for of in await self._by_topic(targets):
            for target, record in of.others.items():
                is_replayed = record is not None and is_of(target, record) and record.epoch > target.epoch
                results[target] = None if is_replayed else failure(target, record)
            async with self._taken(of.topic, of.letters) as found:
                copies = await self._copies(of.topic, of.letters, found)
                lost = [target for target in of.letters if target not in copies]
                results |= {target: Failure(of.topic, target.id, LETTER_LOST) for target in lost}
                results |= await self._settle(
                    {
                        target: followed(self._records, copy, found.get(target), self._letters.replay)
                        for target, copy in copies.items()
                    },
                    Verdict.REPLAYED,
                )
        return results

    async def drop(self, targets: Sequence[Target]) -> Results:
        """Drops dead letters. One that is deleted counts as dropped. Raises as `replay`."""
        results: Results = {}
        for of in await self._by_topic(targets):
            for target, record in of.others.items():
                is_dropped = record is not None and is_of(target, record) and record.state is State.DELETED
                results[target] = None if is_dropped else failure(target, record)
            async with self._taken(of.topic, of.letters) as found:
                copies = {target: first_copy(record, Envelope()) for target, record in of.letters.items()}
                steps = {
                    target: followed(self._records, copy, found.get(target), self._letters.drop)
                    for target, copy in copies.items()
                }
                results |= await self._settle(steps, Verdict.DROPPED)
        return results

    async def _by_topic(self, targets: Sequence[Target]) -> list[_OfTopic]:
        """Reads the records, and tells those that are still letters from the others."""
        calls = [self._records.weigh(target.topic, target.id) for target in targets]
        answers = await self._store.run(calls)
        by_topic: dict[str, _OfTopic] = {}
        for target, call, answer in zip(targets, calls, answers, strict=True):
            record = outcome_of(call, answer).record
            of_topic = by_topic.setdefault(target.topic, _OfTopic(target.topic))
            if record is not None and record.is_letter and is_of(target, record) and record.epoch == target.epoch:
                of_topic.letters[target] = record
            else:
                of_topic.others[target] = record
        return list(by_topic.values())

    @asynccontextmanager
    async def _taken(self, topic: str, letters: Mapping[Target, Record]) -> AsyncIterator[dict[Target, Taken]]:
        """Takes the letters out of the queue. Those that nobody acknowledges are back at the end of the context."""
        if not letters:
            yield {}
            return
        targets = {_key(record.id, record.epoch, record.nonce): target for target, record in letters.items()}
        found: dict[Target, Taken] = {}

        def is_wanted(taken: Taken) -> bool:
            copy = self._letters.copy(topic, taken)
            target = targets.get(_key(copy.id, copy.epoch, copy.nonce))
            if target is None or target in found:
                return False
            found[target] = taken
            return True

        async with AsyncExitStack() as searches:
            # Those with a target are in a queue that all topics share.
            for queue in (self._declared.dead_queue(topic), self._declared.unroutable_queue):
                if left := len(letters) - len(found):
                    await searches.enter_async_context(self._search.find_many(queue, is_wanted, most=left))
            yield found

    async def _copies(
        self, topic: str, letters: Mapping[Target, Record], found: Mapping[Target, Taken]
    ) -> dict[Target, Copy]:
        """The letters with their bodies: from the queue, or where they are no longer there, from Redis."""
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

    async def _settle(self, steps: Mapping[Target, Step], wanted: Verdict) -> Results:
        results: Results = {}
        targets = [*steps]
        for start in range(0, len(targets), BURST):
            some = targets[start : start + BURST]
            performed = await self._succession.perform([steps[target] for target in some])
            for target, result in zip(some, performed, strict=True):
                outcome = named(result)
                results[target] = None if outcome.verdict is wanted else failure(target, outcome.record)
        return results


def _key(message_id: str, epoch: int, nonce: int) -> _Key:
    # The record of a letter has another id once a new message has taken its id.
    return taken_id(message_id), epoch, nonce
