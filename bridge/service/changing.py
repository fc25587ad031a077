"""Changes messages before their delivery: deletes them, or moves them to another due moment."""

from __future__ import annotations

import asyncio
from typing import Any

from bridge.metrics.messages import DELETED
from bridge.model.durations import format_instant
from bridge.model.errors import BodyNotKept, Conflict, NotFound
from bridge.model.message import CopyKind, Message, State, new_nonce
from bridge.model.values import Policy, Release
from bridge.service.context import Context
from bridge.service.horizon import check_horizon
from bridge.service.lookup import Lookup
from bridge.service.succession import Step, Succession
from bridge.service.successors import later, successor
from bridge.store.outcomes import Outcome, read, read_envelope
from bridge.store.records import Records
from bridge.store.verdicts import Verdict

_OVERDUE_MS = 1_000  # a copy that is this late may have been lost with its queue


class Changing:
    def __init__(self, context: Context, lookup: Lookup) -> None:
        self._store = context.store
        self._records = context.records
        self._succession = Succession(context.store, context.broker.copy_publisher)
        self._topics = context.topics
        self._lookup = lookup

    async def delete(
        self, topic: str, message_id: str, *, release: bool, created_ms: int | None = None, waits: bool = False
    ) -> Message:
        """Deletes a message for good. A second delete succeeds too.

        With `release` only the tombstone is kept, without the body. `created_ms`: deletes the message only if it was
        created then. `waits`: a message that is being released is deleted at its due moment, as a released one.

        Raises:
            NotFound, StoreUnavailable
            Conflict: the message has ended in another way, or was created at another moment. Or it is due within
                milliseconds and being released, and the delete does not wait.
        """
        before, outcome = await self._delete(topic, message_id, release=release, created_ms=created_ms)
        if outcome.verdict is Verdict.RELEASING and waits:
            await asyncio.sleep((outcome.extra + 1) / 1_000)  # a timer may end a little early
            before, outcome = await self._delete(
                topic, message_id, release=release, created_ms=created_ms, even_releasing=True
            )
        if outcome.record is None:
            raise NotFound(f"there is no message {message_id!r} in the topic {topic!r}")
        if outcome.verdict is Verdict.RELEASING:
            due = format_instant(outcome.record.due_ms)
            raise Conflict(f"too late: the message is being released for {due}", state=outcome.record.state.label)
        if outcome.verdict in (Verdict.ENDED, Verdict.OTHER):
            raise Conflict(f"the message is {outcome.record.state.label}", state=outcome.record.state.label)
        if before.record is not None and before.record.state is not State.DELETED:
            DELETED.add(topic)
        return Message(record=outcome.record, envelope=None if release else read_envelope(before))

    async def _delete(self, topic: str, message_id: str, **how: Any) -> tuple[Outcome, Outcome]:
        """Returns the message before, and the outcome of the delete."""
        calls = [self._records.look(topic, message_id), self._records.delete(topic, message_id, **how)]
        looked, answer = await self._store.run(calls)
        return read(topic, message_id, looked), read(topic, message_id, answer)

    async def move(self, topic: str, message_id: str, *, delay_ms: int | None, deliver_at_ms: int | None) -> Message:
        """Gives a waiting message another due moment, which may be now.

        A move to a later moment changes only the record; the checkpoint holds the copy back when it arrives. A move to
        an earlier moment publishes a new copy and needs the body. So does a move of an overdue message, whose copy may
        have been lost with its queue.

        Raises:
            NotFound, Unavailable
            InvalidRequest: the message would be due beyond the longest delay.
            Conflict: the message no longer waits.
            BodyNotKept: the message would come earlier, and its body was not kept.
        """
        message = await self._lookup.get(topic, message_id)
        record = message.record
        if record.state is not State.WAITING:
            raise Conflict(f"the message no longer waits: it is {record.state.label}", state=record.state.label)
        now_ms = self._store.clock.now_ms()
        due_ms = int(now_ms) + (delay_ms or 0) if deliver_at_ms is None else max(deliver_at_ms, int(now_ms))
        if deliver_at_ms is None:
            check_horizon("delay", delay_ms or 0, due_ms - now_ms)
        else:
            check_horizon("deliver_at", deliver_at_ms, due_ms - now_ms)
        policy = await self._topics.policy(topic)
        step = move_step(self._records, message, policy, now_ms=now_ms, due_ms=due_ms)
        outcome = await self._succession.perform_one(step)
        if outcome.verdict is Verdict.UNKNOWN:
            raise NotFound(f"there is no message {message_id!r} in the topic {topic!r}")
        if outcome.verdict is not Verdict.MOVED:
            state = outcome.found.state.label
            raise Conflict(f"the message was changed meanwhile: it is {state}", state=state)
        return Message(record=outcome.found, envelope=message.envelope)


def move_step(records: Records, message: Message, policy: Policy, *, now_ms: float, due_ms: int) -> Step:
    """Decides what a move does. It changes only the record if the live copy arrives early enough, else it publishes a
    successor. Pure.

    Raises:
        BodyNotKept: a successor is needed, and the body was not kept.
    """
    record, envelope = message.record, message.envelope
    kept = envelope is not None and envelope.body is not None
    # No bridge sees the copies of a direct topic arrive, so an overdue one may be in its ready queue.
    overdue = policy.release is Release.CHECKED and record.arrives_ms + _OVERDUE_MS <= now_ms
    if due_ms >= record.arrives_ms and not (overdue and kept):
        return Step(name=records.move(record, next_nonce=None, due_ms=due_ms))
    if envelope is None or not kept:
        raise BodyNotKept(
            "the message can't come earlier: Redis keeps no body of its size (BRIDGE_KEEP_BODY_MAX, keep_body_max)",
            state=record.state.label,
        )
    nonce = new_nonce()
    copy = successor(record, envelope, nonce=nonce, attempt=record.attempts + 1, due_ms=due_ms)
    return Step(
        announce=records.announce(copy, arrives_ms=due_ms, now_ms=now_ms),
        publication=later(copy, now_ms, CopyKind.MOVE),
        name=records.move(record, next_nonce=nonce, due_ms=due_ms),
    )
