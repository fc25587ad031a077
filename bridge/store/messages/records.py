"""Builds the calls of the scripts about messages, one method a script. `transitions.py` reads their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple, TypeVar

from bridge.model import log_scope
from bridge.model.filter import Order
from bridge.model.message import Copy, Envelope, Record, State
from bridge.model.values import AckVerdict, Draft
from bridge.store.calls import OWN_ARGS, Call, plain
from bridge.store.keys import Keys
from bridge.store.messages import envelopes, transitions
from bridge.store.messages import verdicts as of
from bridge.store.messages.outcomes import Looked, Outcome, TimelineAnswer
from bridge.store.messages.parts import Part, read_part
from bridge.store.messages.transitions import Transition
from bridge.store.replies import flags, wholes
from bridge.store.scripts import SCRIPTS

_BEHIND_MS = 60_000
"""How much later than planned a copy may reach the checkpoint if no record names it. The call that publishes the copy
lasts seconds, and the checkpoint may be behind."""

AHEAD_MS = 5
"""How long before a message's due moment the checkpoint may ask Redis about the message. The checkpoint publishes the
message at the due moment. So the question and the waits for a CPU do not make the message late."""

Answer = TypeVar("Answer")

_NOBODY: Final = "-"
_AS_IT_IS: Final = "-"


class NamedBefore(StrEnum):
    """Which copies a record has certainly named before a given copy reaches the checkpoint. MESSAGE: this copy, or an
    earlier copy of its message. FORMER: such a copy, or a copy of the message that this one replaces. NOTHING: unknown.

    The values are those of the argument `named` of lua/fire.lua.
    """

    MESSAGE = "message"
    FORMER = "former"
    NOTHING = ""


class Claim(NamedTuple):
    """The values with which a send claims an id, in addition to the values of its draft. `ttl_ms`: the time to live
    from the due moment; -1: none. `nonce`: that of the first copy. `by`: as `Records.by` returns it."""

    id: str
    ttl_ms: int
    max_retry: int
    nonce: int
    by: str

    def record(self, draft: Draft, created_ms: int) -> Record:
        """Returns the record of the message for a send that makes no claim. `created_ms`: the present moment in Unix ms
        by Redis' clock."""
        due_ms = created_ms + (draft.delay_ms or 0) if draft.deliver_at_ms is None else draft.deliver_at_ms
        return Record(
            topic=draft.topic,
            id=self.id,
            state=State.UNCONFIRMED,
            epoch=1,
            nonce=self.nonce,
            created_ms=created_ms,
            due_ms=due_ms,
            expires_ms=due_ms + self.ttl_ms if self.ttl_ms >= 0 else 0,
            attempts=0,
            max_retry=self.max_retry,
            arrives_ms=due_ms,
            last_ms=due_ms,
            lease_until_ms=0,
            ended_ms=0,
            forget_ms=0,
            reason="",
            labels=draft.labels,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Records:
    """Builds the calls of the scripts about messages. `retention_ms`, `tombstone_ms`: how long Redis keeps records that
    have ended. `timelines`: whether scripts note transitions in timelines. `now`: the Unix ms to which tests set the
    clock, as text; empty: the clock of Redis."""

    keys: Keys
    retention_ms: int
    tombstone_ms: int
    timelines: bool = True
    now: str = ""

    def by(self) -> str:
        """Returns the argument `by` of the scripts (`lua/_record.lua`): the token id of the request that the current
        task serves. It is `-` if there is none, and empty if no timelines are kept."""
        return log_scope.token_id() or _NOBODY if self.timelines else ""

    def _call_with(
        self, transition: Transition[Answer], topic: str, message_id: str, own: tuple[Any, ...]
    ) -> Call[Answer]:
        """Builds a script's call for one message. `own`: the arguments that only this script has, in order. Frequent
        calls use this method, because `_call` with its named arguments costs 4 us more."""
        args = (self.now, message_id, self.retention_ms, self.tombstone_ms, "", *own)
        return Call(transition.script, transition.read, self.keys.record(topic, message_id), args, topic)

    def _call(self, transition: Transition[Answer], topic: str, message_id: str, **args: Any) -> Call[Answer]:
        own = transition.script.args[OWN_ARGS:]
        if len(own) != len(args):
            raise TypeError(f"{transition.script.name} takes {own}, not {tuple(args)}")
        return self._call_with(transition, topic, message_id, tuple(args[name] for name in own))

    def schedule(self, draft: Draft, claim: Claim) -> Call[Outcome[of.ScheduleVerdict]]:
        when = ("in", draft.delay_ms or 0) if draft.deliver_at_ms is None else ("at", draft.deliver_at_ms)
        limits = (claim.ttl_ms, claim.max_retry)
        own = (*when, *limits, claim.nonce, int(not draft.id), draft.labels, claim.by)
        return self._call_with(transitions.SCHEDULE, draft.topic, claim.id, own)

    def confirm(
        self,
        record: Record,
        *,
        ready: bool = False,
        direct: bool = False,
        answer_by_ms: int = 0,
        envelope: bytes = b"",
    ) -> Call[Outcome[of.ConfirmVerdict]]:
        how = (int(ready), int(direct), answer_by_ms, envelope)
        own = (record.epoch, record.nonce, record.created_ms, *how)
        return self._call_with(transitions.CONFIRM, record.topic, record.id, own)

    def enter(
        self, record: Record, *, direct: bool, instant: bool, envelope: bytes, by: str
    ) -> Call[Outcome[of.EnterVerdict]]:
        moments = (record.created_ms, record.due_ms, record.expires_ms)
        how = (int(direct), int(instant), envelope)
        own = (record.nonce, *moments, record.max_retry, *how, record.labels, by)
        return self._call_with(transitions.ENTER, record.topic, record.id, own)

    def keep(self, record: Record, envelope: bytes) -> Call[Outcome[of.KeepVerdict]]:
        return self._call(
            transitions.KEEP, record.topic, record.id, epoch=record.epoch, nonce=record.nonce, envelope=envelope
        )

    def abandon(self, record: Record) -> Call[Outcome[of.AbandonVerdict]]:
        return self._call(transitions.ABANDON, record.topic, record.id, epoch=record.epoch, nonce=record.nonce)

    def withdraw(self, record: Record) -> Call[Outcome[of.WithdrawVerdict]]:
        return self._call(transitions.WITHDRAW, record.topic, record.id, epoch=record.epoch, nonce=record.nonce)

    def fire(
        self,
        copy: Copy,
        *,
        paused_ms: int,
        adopt: bool,
        named: NamedBefore = NamedBefore.NOTHING,
        waited_ms: int | None = None,
        short_ms: int = 0,
    ) -> Call[Outcome[of.FireVerdict]]:
        """Builds the call that asks whether to release a copy that has come out of the wheel.

        `paused_ms`: how long to hold a due copy whose topic is paused; 0: it is not paused. `adopt`: trust a copy that
        is newer than its record. `named`: which copies the record has certainly named. `waited_ms`: how many ms the
        copy was in the wheel, if that was its whole delay; None: unknown. `short_ms`: an upper bound, in ms: how early
        the wheel brings a copy.
        """
        own = (*_facts(copy), paused_ms, int(adopt), AHEAD_MS, named, _given(waited_ms), short_ms, self.by())
        return self._call_with(transitions.FIRE, copy.topic, copy.id, own)

    def returned(self, copy: Copy, *, by_ttl: bool) -> Call[Outcome[of.ReturnedVerdict]]:
        of_client = by_ttl and "expiration" in copy.envelope.properties
        return self._call_with(
            transitions.RETURNED, copy.topic, copy.id, (*_facts(copy), by_ttl + of_client, self.by())
        )

    def lease(
        self,
        copy: Copy,
        *,
        next_nonce: int,
        lease_ms: int,
        arrives_in_ms: int,
        counted: bool = True,
        unacked: bool = False,
        waited: bool = False,
        by: str | None = None,
    ) -> Call[Outcome[of.LeaseVerdict]]:
        """Builds the call that leases the message of a copy.

        `next_nonce`: the nonce of the lease copy. `arrives_in_ms`: in how many ms the lease copy reaches the
        checkpoint. `counted`: the delivery counts as an attempt. `unacked`: no lease copy is published yet, so the
        caller keeps the delivery unacknowledged. `waited`: the copy came straight out of the wheel, after its whole
        delay. `by`: the id of the token that pulls; None: the token of the current task's request.
        """
        next_epoch = max(copy.epoch, 1) + 1
        who = self.by() if by is None else by
        flags = (int(counted), int(unacked), int(waited))
        own = (*_facts(copy), next_epoch, next_nonce, lease_ms, arrives_in_ms, *flags, who)
        return self._call_with(transitions.LEASE, copy.topic, copy.id, own)

    def lease_copy(self, copy: Copy, *, arrives_ms: int) -> Call[Outcome[of.LeaseCopyVerdict]]:
        return self._call_with(transitions.LEASE_COPY, copy.topic, copy.id, (copy.epoch, copy.nonce, arrives_ms))

    def ack(
        self,
        topic: str,
        message_id: str,
        *,
        epoch: int | Literal["delivered"] | None,
        nonce: int | None = None,
        copy_gone: bool = False,
        created_ms: int | None = None,
    ) -> Call[Outcome[AckVerdict]]:
        """Builds the call that ends a message as consumed.

        `epoch`, `nonce`: those of the receipt, for an ack of its lease alone. `epoch` None: acks the live copy. `epoch`
        "delivered": acks the live copy only if a consumer may have received it. `copy_gone`: an AMQP consumer or the
        checkpoint has taken the copy out of RabbitMQ. Then `epoch` None means "delivered", and an `epoch` acks its
        copy, leased or not. `created_ms`: acks only a message created then, in Unix ms; None: any.
        """
        own = (_given(epoch), _given(nonce), int(copy_gone), _given(created_ms), self.by())
        return self._call_with(transitions.ACK, topic, message_id, own)

    def announce(self, copy: Copy, *, arrives_ms: int, now_ms: float) -> Call[Outcome[of.AnnounceVerdict]] | None:
        """Builds the call that makes the record outlive a copy, before the copy is published. A later call, which would
        name the copy, may fail. Returns None if Redis keeps the record long enough anyway. `arrives_ms`: when the copy
        reaches the checkpoint. `now_ms`: the present moment. Both are Unix ms by Redis' clock."""
        if arrives_ms + _BEHIND_MS <= now_ms + min(self.retention_ms, self.tombstone_ms):
            return None
        return self._call_with(transitions.ANNOUNCE, copy.topic, copy.id, (arrives_ms,))

    def nack(
        self, record: Record, *, next_nonce: int | None, due_ms: int, reason: str
    ) -> Call[Outcome[of.NackVerdict]]:
        return self._call(
            transitions.NACK,
            record.topic,
            record.id,
            epoch=record.epoch,
            nonce=record.nonce,
            **_successor(record, next_nonce),
            due_ms=due_ms,
            reason=reason,
            by=self.by(),
        )

    def extend(
        self, topic: str, message_id: str, *, epoch: int | None, nonce: int | None = None, lease_ms: int
    ) -> Call[Outcome[of.ExtendVerdict]]:
        given = {"epoch": _given(epoch), "nonce": _given(nonce)}
        return self._call(transitions.EXTEND, topic, message_id, **given, lease_ms=lease_ms, by=self.by())

    def delete(
        self,
        topic: str,
        message_id: str,
        *,
        release: bool,
        created_ms: int | None = None,
        seen: str = "",
        even_releasing: bool = False,
    ) -> Call[Outcome[of.DeleteVerdict]]:
        """Builds the call that deletes a message.

        `release`: also frees the kept envelope. `created_ms`: deletes only a message created then, in Unix ms; None:
        any. `seen`: deletes only this version (`Record.version`); empty: any. `even_releasing`: also deletes a message
        that the checkpoint is releasing in the last `AHEAD_MS` before its due moment.
        """
        ahead_ms = 0 if even_releasing else AHEAD_MS
        return self._call(
            transitions.DELETE,
            topic,
            message_id,
            release=int(release),
            created_ms=_given(created_ms),
            seen=seen,
            ahead_ms=ahead_ms,
            by=self.by(),
        )

    def change(
        self,
        record: Record,
        *,
        seen: str = "",
        next_nonce: int | None = None,
        arrives_ms: int | None = None,
        due_ms: int | None = None,
        instant: bool = False,
        only_later: bool = False,
        ttl_ms: int | None = None,
        max_retry: int | None = None,
        labels: str | None = None,
        envelope: bytes | None = None,
    ) -> Call[Outcome[of.ChangeVerdict]]:
        """Builds the call that changes the given fields of a waiting message; None leaves a field as it is. Moments are
        Unix ms.

        `seen`: changes only this version (`Record.version`); empty: any. `arrives_ms`: when the successor copy reaches
        the checkpoint. `instant`: the caller gave the due moment as an instant, and not as a delay. `only_later`: never
        moves the due moment to an earlier one. `ttl_ms`: counts from the due moment. `labels`: a line `key=value` for
        each. `envelope`: new content, packed; it needs a successor copy (`next_nonce`).
        """
        return self._call(
            transitions.CHANGE,
            record.topic,
            record.id,
            epoch=record.epoch,
            nonce=record.nonce,
            seen=seen,
            **_successor(record, next_nonce),
            arrives_ms=_given(arrives_ms),
            due_ms=_given(due_ms),
            instant=int(instant),
            only_later=int(only_later),
            ttl_ms=_given(ttl_ms),
            max_retry=_given(max_retry),
            new_labels=_AS_IT_IS if labels is None else labels,
            content=int(envelope is not None),
            envelope=envelope or b"",
            by=self.by(),
        )

    def replace(self, record: Record, copy: Copy, draft: Draft, *, envelope: bytes) -> Call[Outcome[of.ReplaceVerdict]]:
        """Builds the call that puts a new message in place of a live one. `record`: that of the live message. `copy`,
        `draft`, `envelope`: those of the new message."""
        return self._call(
            transitions.REPLACE,
            record.topic,
            record.id,
            epoch=record.epoch,
            nonce=record.nonce,
            **_successor(record, copy.nonce),
            created_ms=copy.created_ms,
            due_ms=copy.due_ms,
            expires_ms=copy.expires_ms,
            max_retry=copy.max_retry,
            instant=int(draft.deliver_at_ms is not None),
            envelope=envelope,
            given=draft.labels,
            ahead_ms=AHEAD_MS,
            by=self.by(),
        )

    def retry(
        self, record: Record, *, next_nonce: int, due_ms: int, attempts: int, reason: str
    ) -> Call[Outcome[of.RetryVerdict]]:
        return self._call(
            transitions.RETRY,
            record.topic,
            record.id,
            epoch=record.epoch,
            nonce=record.nonce,
            **_successor(record, next_nonce),
            due_ms=due_ms,
            attempts=attempts,
            reason=reason,
            by=self.by(),
        )

    def bury(self, record: Record, *, next_nonce: int, attempts: int, reason: str) -> Call[Outcome[of.BuryVerdict]]:
        return self._call(
            transitions.BURY,
            record.topic,
            record.id,
            epoch=record.epoch,
            nonce=record.nonce,
            **_successor(record, next_nonce),
            attempts=attempts,
            reason=reason,
            by=self.by(),
        )

    def replay(
        self, copy: Copy, *, next_nonce: int, max_retry: int, due_ms: int, expires_ms: int
    ) -> Call[Outcome[of.ReplayVerdict]]:
        return self._call(
            transitions.REPLAY,
            copy.topic,
            copy.id,
            epoch=copy.epoch,
            nonce=copy.nonce,
            next_epoch=copy.epoch + 1,
            next_nonce=next_nonce,
            max_retry=max_retry,
            created_ms=copy.created_ms,
            expires_ms=expires_ms,
            due_ms=due_ms,
            by=self.by(),
        )

    def drop(
        self, topic: str, message_id: str, *, epoch: int | None, nonce: int | None = None
    ) -> Call[Outcome[of.DropVerdict]]:
        return self._call(transitions.DROP, topic, message_id, epoch=_given(epoch), nonce=_given(nonce), by=self.by())

    def restore(self, record: Record, restored: Record, envelope: Envelope) -> Call[Outcome[of.RestoreVerdict]]:
        """Builds the call that restores a message from a backup. `record`: the record in the backup. `restored`: the
        record that Redis will have, with the epoch and nonce of the copy that was published for it."""
        body = envelope.body
        return self._call(
            transitions.RESTORE,
            record.topic,
            record.id,
            epoch=record.epoch,
            nonce=record.nonce,
            next_epoch=restored.epoch,
            next_nonce=restored.nonce,
            state=int(restored.state),
            created_ms=record.created_ms,
            due_ms=restored.due_ms,
            expires_ms=record.expires_ms,
            attempts=record.attempts,
            max_retry=record.max_retry,
            last_ms=record.last_ms,
            ended_ms=record.ended_ms,
            forget_ms=record.forget_ms,
            reason=record.reason,
            envelope=envelopes.pack(envelope, 0 if body is None else len(body)),
            given=record.labels,
            by=self.by(),
        )

    def look(self, topic: str, message_id: str) -> Call[Looked]:
        return self._call(transitions.LOOK, topic, message_id)

    def timeline(self, topic: str, message_id: str) -> Call[TimelineAnswer]:
        return self._call(transitions.TIMELINE, topic, message_id)

    def weigh(self, topic: str, message_id: str) -> Call[Outcome[of.WeighVerdict]]:
        return self._call(transitions.WEIGH, topic, message_id)

    def superseded(self, copies: Sequence[Copy]) -> Call[list[bool]]:
        """Builds the call that asks which copies are ghosts, by epoch alone. False is not certain: such a copy may
        still be a ghost by its nonce. The records of all copies must have the same home (`Keys.home`), and no epoch may
        be 0."""
        keys = tuple(self.keys.record(copy.topic, copy.id)[0] for copy in copies)
        facts = tuple(fact for copy in copies for fact in (copy.epoch, copy.nonce, copy.created_ms))
        return Call(SCRIPTS["superseded"], plain(flags), keys, facts)

    def page(
        self,
        topic: str,
        bucket: int,
        *,
        states: str,
        due_from_ms: int,
        due_to_ms: int,
        cursor: tuple[int, str] | None,
        limit: int,
        order: Order = Order.ASC,
        prefix: str = "",
    ) -> Call[Part]:
        due_ms, message_id = cursor or (0, "")
        args = (states, due_from_ms, due_to_ms, due_ms, message_id, limit, order, prefix)
        return Call(SCRIPTS["page"], plain(read_part), self.keys.indexes(topic, bucket)[:7], args)

    def labelled(self, topic: str, bucket: int, *, labels: str, **of_page: Any) -> Call[Part]:
        """Builds the call that lists the messages of a bucket that have all the given labels, by due moment. `labels`:
        one text, a line `key=value` for each. `of_page`: the named arguments of `page`, such as states, cursor and
        limit."""
        page = self.page(topic, bucket, **of_page)
        return Call(
            SCRIPTS["labelled"], page.read, (*page.keys, self.keys.indexes(topic, bucket)[-1]), (*page.args, labels)
        )

    def counts(self, topic: str, bucket: int, *, edges_ms: tuple[int, ...]) -> Call[list[int]]:
        return Call(SCRIPTS["counts"], plain(wholes), self.keys.indexes(topic, bucket), (self.now, *edges_ms))


def _given(value: int | str | None) -> int | str:
    return "" if value is None else value


def _facts(copy: Copy) -> tuple[int, ...]:
    return (copy.epoch, copy.nonce, copy.attempt, copy.max_retry, copy.due_ms, copy.expires_ms, copy.created_ms)


def _successor(record: Record, next_nonce: int | None) -> dict[str, int | str]:
    if next_nonce is None:
        return {"next_epoch": "", "next_nonce": ""}
    return {"next_epoch": record.epoch + 1, "next_nonce": next_nonce}
