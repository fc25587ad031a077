"""Changes the messages of one pool in batches: deletes, moves and replays them.

A batch may be carried out twice, if a process dies before it saves its counts. So a message counts as changed if it is
already in the state that the action leads to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import assert_never

from bridge.metrics.messages import DELETED
from bridge.model.bulk import Bulk, BulkAction, Failure, Target
from bridge.model.errors import BodyNotKept
from bridge.model.message import Message, Record, State
from bridge.model.values import Change
from bridge.service.changing import change_step
from bridge.service.context import Context
from bridge.service.dead.batches import DeadLetters
from bridge.service.protocol.steps import Step, named
from bridge.service.protocol.succession import Succession
from bridge.service.reading.portions import portions
from bridge.service.results import BURST, Check, Results, failure, is_of
from bridge.store.calls import Call
from bridge.store.messages.outcomes import Looked, Outcome, read_envelope
from bridge.store.messages.verdicts import ChangeVerdict, DeleteVerdict, WeighVerdict


class Changes:
    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._records = context.records
        self._topics = context.topics
        self._succession = Succession.of_calls(context)
        self._letters = DeadLetters(context)

    async def run(self, bulk: Bulk, targets: Sequence[Target], check: Check) -> Results:
        """Carries out the action of `bulk` on the targets, which belong to this pool. Returns for each target why it
        could not be changed; None if it was changed. `check`: called before each burst of changes; it raises an error
        to stop them.

        Raises:
            Unavailable: a server did not answer, and some targets may be changed. Run it again with the same targets.
            Exception: the error of `check`; some targets may be changed.
        """
        await self._store.learn_clock([self._records.keys.home(target.topic, target.id) for target in targets])
        letters = [target for target in targets if target.state is State.DEAD]
        others = [target for target in targets if target.state is not State.DEAD]
        results: Results = {}
        if bulk.action is BulkAction.DELETE:
            check()
            results |= await self._delete(others)
            results |= await self._letters.drop(letters, check)
        elif bulk.action is BulkAction.REPLAY:
            results |= await self._letters.replay(letters, check)
        else:
            results |= await self._move(bulk, others, check)
        return results

    async def records(self, named: Sequence[tuple[str, str]]) -> list[Outcome[WeighVerdict]]:
        """Reads records without bodies. `named`: topic and id of each message. Returns an outcome for each, in order.
        Its `extra` is the size in bytes of the envelope that Redis keeps.

        Raises:
            StoreUnavailable: Redis did not answer.
        """
        return await self._store.run([self._records.weigh(topic, message_id) for topic, message_id in named])

    async def _delete(self, targets: Sequence[Target]) -> Results:
        outcomes = await self._store.run([self._deleting(target) for target in targets])
        releasing = [at for at, outcome in enumerate(outcomes) if outcome.verdict is DeleteVerdict.RELEASING]
        if releasing:
            # These messages are due within milliseconds. After that they are deleted like any released message.
            await asyncio.sleep((max(outcomes[at].extra for at in releasing) + 1) / 1_000)
            again = [self._deleting(targets[at], even_releasing=True) for at in releasing]
            for at, outcome in zip(releasing, await self._store.run(again), strict=True):
                outcomes[at] = outcome
        results: Results = {}
        for target, outcome in zip(targets, outcomes, strict=True):
            match outcome.verdict:
                case DeleteVerdict.DELETED:
                    DELETED.add(target.topic)
                    results[target] = None
                case DeleteVerdict.ENDED | DeleteVerdict.OTHER | DeleteVerdict.STALE | DeleteVerdict.UNKNOWN:
                    results[target] = failure(target, outcome.record)
                case DeleteVerdict.RELEASING:
                    results[target] = failure(target, outcome.record)
                case _:
                    assert_never(outcome.verdict)
        return results

    def _deleting(self, target: Target, *, even_releasing: bool = False) -> Call[Outcome[DeleteVerdict]]:
        return self._records.delete(
            target.topic, target.id, release=False, created_ms=target.created_ms, even_releasing=even_releasing
        )

    async def _move(self, bulk: Bulk, targets: Sequence[Target], check: Check) -> Results:
        weighed = await self.records([(target.topic, target.id) for target in targets])
        sizes = [outcome.extra for outcome in weighed]
        results: Results = {}
        for start in range(0, len(targets), BURST):
            some = targets[start : start + BURST]
            for portion in portions(sizes[start : start + BURST]):
                check()
                results |= await self._move_portion(bulk, some[portion])
        return results

    async def _move_portion(self, bulk: Bulk, targets: Sequence[Target]) -> Results:
        """Moves messages whose bodies fit in memory together. Tries a second time for each message that still waits but
        was changed meanwhile: a checkpoint may have held its copy back, or another process may have moved it."""
        results, again = await self._try_to_move(bulk, targets)
        if again:
            tried, _ = await self._try_to_move(bulk, again)
            results |= tried
        return results

    async def _try_to_move(self, bulk: Bulk, targets: Sequence[Target]) -> tuple[Results, list[Target]]:
        """Tries once to move the messages. Returns the results, and the targets that still wait but were changed
        meanwhile."""
        results: Results = {}
        again: list[Target] = []
        steps: dict[Target, Step[ChangeVerdict]] = {}
        looked = await self._store.run([self._records.look(target.topic, target.id) for target in targets])
        now_ms = self._store.clock.now_ms()
        for target, outcome in zip(targets, looked, strict=True):
            record = outcome.record
            try:
                step = await self._moving(bulk, target, outcome, now_ms)
            except BodyNotKept as error:
                results[target] = Failure(target.topic, target.id, str(error))
                continue
            if step is None:
                is_there = record is not None and is_of(target, record) and bulk.has_moved(record, outcome.now_ms)
                results[target] = None if is_there else failure(target, record)
            else:
                steps[target] = step
        for target, result in zip(steps, await self._succession.perform([*steps.values()]), strict=True):
            changed = named(result)
            match changed.verdict:
                case ChangeVerdict.CHANGED:
                    results[target] = None
                case ChangeVerdict.STALE | ChangeVerdict.UNKNOWN:
                    results[target] = failure(target, changed.record)
                    if changed.record is not None and _waits(target, changed.record):
                        again.append(target)
                case _:
                    assert_never(changed.verdict)
        return results, again

    async def _moving(self, bulk: Bulk, target: Target, looked: Looked, now_ms: float) -> Step[ChangeVerdict] | None:
        """Returns the step that moves the message. None: the message no longer waits, or the action has already moved
        it."""
        record = looked.record
        if record is None or not _waits(target, record):
            return None
        if bulk.has_moved(record, looked.now_ms):
            return None
        message = Message(record=record, envelope=read_envelope(looked))
        policy = await self._topics.policy(target.topic)
        due_ms = max(bulk.due_ms, int(now_ms))
        return change_step(self._records, message, Change(), policy, now_ms=now_ms, due_ms=due_ms, instant=True)


def _waits(target: Target, record: Record) -> bool:
    return is_of(target, record) and record.state is State.WAITING
