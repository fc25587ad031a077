"""Changes messages before their delivery: deletes or moves them, or changes their content, limits or labels."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any, assert_never

from bridge.metrics.messages import DELETED
from bridge.model.durations import format_instant
from bridge.model.errors import BodyNotKept, Conflict, InvalidRequest, NotAsSeen, NotFound, Releasing
from bridge.model.message import Copy, CopyKind, Envelope, Message, Record, State, new_nonce
from bridge.model.values import Change, Policy, Release
from bridge.service.context import Context
from bridge.service.horizon import check_horizon
from bridge.service.protocol.kept_bodies import keep_body_max
from bridge.service.protocol.steps import Step, Succeed, Update
from bridge.service.protocol.succession import Succession
from bridge.service.protocol.successors import later, successor
from bridge.store.messages import envelopes
from bridge.store.messages.outcomes import Looked, Outcome, read_envelope
from bridge.store.messages.records import Records
from bridge.store.messages.verdicts import ChangeVerdict, DeleteVerdict

_OVERDUE_MS = 1_000  # a copy that is this late may have been lost with its queue


class Changing:
    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._records = context.records
        self._succession = Succession.of_calls(context)
        self._topics = context.topics
        self._settings = context.settings

    async def delete(
        self,
        topic: str,
        message_id: str,
        *,
        release: bool,
        created_ms: int | None = None,
        seen: str = "",
        waits: bool = False,
    ) -> Message:
        """Deletes a message for good, and returns it. If it is deleted already, the call also succeeds.

        `release`: Redis keeps only the tombstone, without the body. `created_ms`: deletes the message only if it was
        created at this moment, in Unix ms; None: at any. `seen`: deletes only this version of the message
        (`Record.version`); empty: any. `waits`: if the message is just being released, waits for its due moment, and
        deletes it after that.

        Raises:
            NotFound: the topic has no message with this id.
            StoreUnavailable: Redis did not answer.
            NotAsSeen: the message has another version.
            Conflict: the message has ended in another way, or was created at another moment. Or it is being released,
                and `waits` is False.
        """
        before, outcome = await self._delete(topic, message_id, release=release, created_ms=created_ms, seen=seen)
        if outcome.verdict is DeleteVerdict.RELEASING and waits:
            await asyncio.sleep((outcome.extra + 1) / 1_000)  # a timer may end a little early
            before, outcome = await self._delete(
                topic, message_id, release=release, created_ms=created_ms, seen=seen, even_releasing=True
            )
        match outcome.verdict:
            case DeleteVerdict.DELETED:
                if before.record is not None and before.record.state is not State.DELETED:
                    DELETED.add(topic)
                return Message(record=outcome.found, envelope=None if release else read_envelope(before))
            case DeleteVerdict.UNKNOWN:
                raise NotFound(f"there is no message {message_id!r} in the topic {topic!r}")
            case DeleteVerdict.STALE:
                raise not_as_seen(outcome.found)
            case DeleteVerdict.RELEASING:
                raise releasing(outcome.found, outcome.extra)
            case DeleteVerdict.ENDED | DeleteVerdict.OTHER:
                raise Conflict(f"the message is {outcome.found.state.label}", state=outcome.found.state.label)
            case _:
                assert_never(outcome.verdict)

    async def _delete(self, topic: str, message_id: str, **how: Any) -> tuple[Looked, Outcome[DeleteVerdict]]:
        """Deletes a message. Returns the message as it was before, and the outcome of the delete."""
        look, delete = self._records.look(topic, message_id), self._records.delete(topic, message_id, **how)
        return await self._store.run_both(look, delete)

    async def change(self, message: Message, change: Change, *, as_seen: bool = False) -> Message:
        """Changes a waiting message, and returns it. The new due moment may be now.

        A move to a later moment, and other limits or labels, change only the record; the checkpoint holds the copy back
        when it arrives. New content, or an earlier moment, publishes a new copy, which needs the whole content. If the
        live copy is over a second overdue, it may have been lost with its queue. A move then also publishes a new copy,
        if Redis keeps the body and the topic has checked release.

        Args:
            message: the message that the caller has read.
            as_seen: refuses the change if the message may have another version by now. Without `as_seen`, concurrent
                changes that need no new copy all succeed.

        Raises:
            NotFound: Redis has the message no longer.
            Unavailable: a server did not answer; the message may have been changed.
            InvalidRequest: the message would be due beyond the longest delay, or has had more deliveries than
                `max_retry` allows.
            NotAsSeen: `as_seen` is set, and the message may have been changed since the caller read it.
            Conflict: the message no longer waits. Or, without `as_seen`, a concurrent change has named a new copy.
            BodyNotKept: the change needs a new copy, and the body was neither given nor kept.
        """
        outcome = await self._change(message, change, as_seen=as_seen)
        if outcome.verdict is ChangeVerdict.STALE and outcome.found.version == message.record.version:
            # A checkpoint has held the copy back meanwhile, which it does every few seconds. Nothing else has changed.
            message = Message(record=outcome.found, envelope=message.envelope)
            outcome = await self._change(message, change, as_seen=as_seen)
        match outcome.verdict:
            case ChangeVerdict.CHANGED:
                return Message(record=outcome.found, envelope=change.envelope or message.envelope)
            case ChangeVerdict.UNKNOWN:
                raise NotFound(f"there is no message {message.record.id!r} in the topic {message.record.topic!r}")
            case ChangeVerdict.STALE if as_seen:
                raise not_as_seen(outcome.found)
            case ChangeVerdict.STALE:
                state = outcome.found.state.label
                raise Conflict(f"the message was changed meanwhile: it is {state}", state=state)
            case _:
                assert_never(outcome.verdict)

    async def _change(self, message: Message, change: Change, *, as_seen: bool) -> Outcome[ChangeVerdict]:
        record = message.record
        if record.state is not State.WAITING:
            raise Conflict(f"the message no longer waits: it is {record.state.label}", state=record.state.label)
        if change.max_retry is not None and change.max_retry < record.attempts:
            limit = f"the message has had {record.attempts} deliveries: it must be at least as many"
            raise InvalidRequest.of("max_retry", change.max_retry, record.attempts, limit)
        now_ms = self._store.clock.now_ms()
        policy = await self._topics.policy(record.topic)
        step = change_step(
            self._records,
            message,
            change,
            policy,
            now_ms=now_ms,
            due_ms=_due_ms(change, now_ms),
            instant=change.delay_ms is None,
            keep_body_max=keep_body_max(self._settings, policy),
            seen=record.version if as_seen else "",
        )
        return await self._succession.perform_one(step)


def releasing(record: Record, left_ms: int) -> Releasing:
    """Returns the error for a call that comes too late, because the checkpoint is already releasing the message.
    `left_ms`: milliseconds until the message is due."""
    due, state = format_instant(record.due_ms), record.state.label
    return Releasing(f"too late: the message is being released for {due}", state=state, left_ms=left_ms)


def not_as_seen(record: Record) -> NotAsSeen:
    """Returns the error for a call that names a version which the message no longer has. `record`: the present
    record."""
    return NotAsSeen(
        f"the message was changed meanwhile: it is {record.state.label}; look it up again", state=record.state.label
    )


def _due_ms(change: Change, now_ms: float) -> int | None:
    if change.deliver_at_ms is not None:
        due_ms = max(change.deliver_at_ms, ceil(now_ms))
        check_horizon("deliver_at", change.deliver_at_ms, due_ms - now_ms)
        return due_ms
    if change.delay_ms is None:
        return None
    check_horizon("delay", change.delay_ms, change.delay_ms)
    return ceil(now_ms) + change.delay_ms


def change_step(
    records: Records,
    message: Message,
    change: Change,
    policy: Policy,
    *,
    now_ms: float,
    due_ms: int | None,
    instant: bool,
    keep_body_max: int = 0,
    seen: str = "",
    only_later: bool = False,
) -> Step[ChangeVerdict]:
    """Returns the step that changes a waiting message. If the content stays and the live copy arrives early enough,
    only the record changes. Otherwise a successor is published. A move also publishes one if the live copy is so late
    that it may be lost, and the body is at hand. Pure.

    `message`: as the caller read it. `now_ms`: the time by Redis' clock, in Unix ms. `due_ms`: the new due moment in
    Unix ms; None: the due moment stays. `instant`: the client gave `due_ms` as an instant, and not as a delay.
    `keep_body_max`: a body of more bytes is not kept in Redis. `seen`: the only version of the record
    (`Record.version`) that the step may change; empty: any version. `only_later`: the step never makes the due moment
    earlier than the record has it by then.

    Raises:
        BodyNotKept: the change needs a successor, and the body was neither given nor kept.
    """
    record, envelope = message.record, change.envelope or message.envelope
    has_body = envelope is not None and envelope.body is not None
    # No bridge sees the copies of a direct topic arrive, so an overdue copy may already be in its ready queue.
    overdue = policy.release is Release.CHECKED and record.arrives_ms + _OVERDUE_MS <= now_ms
    moved = due_ms is not None and (due_ms < record.arrives_ms or (overdue and has_body))
    name = partial(
        records.change,
        record,
        seen=seen,
        due_ms=due_ms,
        instant=instant,
        only_later=only_later,
        ttl_ms=change.ttl_ms,
        max_retry=change.max_retry,
        labels=change.labels,
    )
    if change.envelope is None and not moved:
        return Update(name())
    if envelope is None or not has_body:
        raise BodyNotKept(
            "this needs the body, and Redis keeps no body of its size (BRIDGE_KEEP_BODY_MAX, keep_body_max)"
            + ("" if change.envelope is None else ": give the body too"),
            state=record.state.label,
        )
    copy = _changed_copy(record, envelope, change, record.due_ms if due_ms is None else due_ms)
    return Succeed(
        announce=records.announce(copy, arrives_ms=copy.due_ms, now_ms=now_ms),
        publication=later(copy, now_ms, CopyKind.MOVE),
        name=name(
            next_nonce=copy.nonce,
            arrives_ms=copy.due_ms,
            envelope=None if change.envelope is None else envelopes.pack(envelope, keep_body_max, digested=True),
        ),
    )


def _changed_copy(record: Record, envelope: Envelope, change: Change, due_ms: int) -> Copy:
    copy = successor(record, envelope, nonce=new_nonce(), attempt=record.attempts + 1, due_ms=due_ms)
    expires_ms = record.expires_ms + due_ms - record.due_ms if record.expires_ms else 0
    return replace(
        copy,
        max_retry=record.max_retry if change.max_retry is None else change.max_retry,
        expires_ms=expires_ms if change.ttl_ms is None else due_ms + change.ttl_ms,
    )
