"""Builds the calls of the scripts about messages, one method a script. `outcomes.py` reads their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from bridge.model import log_scope
from bridge.model.filter import Order
from bridge.model.message import Copy, Envelope, Record
from bridge.store import envelopes
from bridge.store.calls import OWN_ARGS, Call
from bridge.store.keys import Keys
from bridge.store.scripts import SCRIPTS

_BEHIND_MS = 60_000
"""How much later than planned a copy that no record names may reach the checkpoint. The call that publishes the copy
lasts seconds, and the checkpoint may be behind."""

AHEAD_MS = 5
"""How much before its due moment the checkpoint may ask about a message. It publishes the message at the moment. So the
question and the waits for a CPU do not make it late."""

_NOBODY: Final = "-"
_AS_IT_IS: Final = "-"


class Claim(NamedTuple):
    """The own arguments of schedule.lua, whose header explains them."""

    id: str
    mode: str
    when_ms: int
    ttl_ms: int
    max_retry: int
    nonce: int
    fresh: int
    labels: str
    by: str


class Confirmation(NamedTuple):
    """The own arguments of confirm.lua, whose header explains them."""

    id: str
    epoch: int
    nonce: int
    created_ms: int
    ready: int
    direct: int
    answer_by_ms: int
    envelope: bytes


class Entry(NamedTuple):
    """The own arguments of enter.lua, whose header explains them."""

    id: str
    nonce: int
    created_ms: int
    due_ms: int
    expires_ms: int
    max_retry: int
    direct: int
    envelope: bytes
    labels: str
    by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Records:
    """Builds the calls. `timelines`: whether scripts note what they do. `now`: tests set the clock with it; otherwise
    it is empty."""

    keys: Keys
    retention_ms: int
    tombstone_ms: int
    timelines: bool = True
    now: str = ""

    def by(self) -> str:
        """Who asks, as `lua/_record.lua` defines it: the token of the request that the task serves."""
        return log_scope.token_id() or _NOBODY if self.timelines else ""

    def _call_with(self, script_name: str, topic: str, message_id: str, own: tuple[Any, ...]) -> Call:
        """Builds a script's call for one message. `own`: the script's own arguments in order. For frequent calls:
        passing them by name costs 4 us."""
        args = (self.now, message_id, self.retention_ms, self.tombstone_ms, "", *own)
        return Call(SCRIPTS[script_name], self.keys.record(topic, message_id), args, topic)

    def _call(self, script_name: str, topic: str, message_id: str, **args: Any) -> Call:
        script = SCRIPTS[script_name]
        own = script.args[OWN_ARGS:]
        if len(own) != len(args):
            raise TypeError(f"{script_name} takes {own}, not {tuple(args)}")
        return self._call_with(script_name, topic, message_id, tuple(args[name] for name in own))

    def schedule(self, topic: str, claim: Claim) -> Call:
        return self._call_with("schedule", topic, claim.id, claim[1:])

    def confirm(self, topic: str, confirmation: Confirmation) -> Call:
        return self._call_with("confirm", topic, confirmation.id, confirmation[1:])

    def enter(self, topic: str, entry: Entry) -> Call:
        return self._call_with("enter", topic, entry.id, entry[1:])

    def keep(self, record: Record, envelope: bytes) -> Call:
        return self._call("keep", record.topic, record.id, epoch=record.epoch, nonce=record.nonce, envelope=envelope)

    def abandon(self, record: Record) -> Call:
        return self._call("abandon", record.topic, record.id, epoch=record.epoch, nonce=record.nonce)

    def withdraw(self, record: Record) -> Call:
        return self._call("withdraw", record.topic, record.id, epoch=record.epoch, nonce=record.nonce)

    def fire(self, copy: Copy, *, paused_ms: int, adopt: bool) -> Call:
        return self._call_with("fire", copy.topic, copy.id, (*_facts(copy), paused_ms, int(adopt), AHEAD_MS, self.by()))

    def returned(self, copy: Copy, *, by_ttl: bool) -> Call:
        of_client = by_ttl and "expiration" in copy.envelope.properties
        return self._call_with("returned", copy.topic, copy.id, (*_facts(copy), by_ttl + of_client, self.by()))

    def lease(
        self,
        copy: Copy,
        *,
        next_nonce: int,
        lease_ms: int,
        arrives_in_ms: int,
        counted: bool = True,
        unacked: bool = False,
        by: str | None = None,
    ) -> Call:
        """`by`: who pulls; None: the caller of the task, as for all others."""
        next_epoch = max(copy.epoch, 1) + 1
        who = self.by() if by is None else by
        own = (*_facts(copy), next_epoch, next_nonce, lease_ms, arrives_in_ms, int(counted), int(unacked), who)
        return self._call_with("lease", copy.topic, copy.id, own)

    def lease_copy(self, copy: Copy, *, arrives_ms: int) -> Call:
        return self._call_with("lease_copy", copy.topic, copy.id, (copy.epoch, copy.nonce, arrives_ms))

    def ack(
        self,
        topic: str,
        message_id: str,
        *,
        epoch: int | Literal["delivered"] | None,
        nonce: int | None = None,
        copy_gone: bool = False,
    ) -> Call:
        return self._call_with("ack", topic, message_id, (_given(epoch), _given(nonce), int(copy_gone), self.by()))

    def announce(self, copy: Copy, *, arrives_ms: int, now_ms: float) -> Call | None:
        """Makes the record outlive a copy that is about to be published, should nobody name it. None: a record that
        ends now is kept longer than that anyway."""
        if arrives_ms + _BEHIND_MS <= now_ms + min(self.retention_ms, self.tombstone_ms):
            return None
        return self._call_with("announce", copy.topic, copy.id, (arrives_ms,))

    def nack(self, record: Record, *, next_nonce: int | None, due_ms: int, reason: str) -> Call:
        return self._call(
            "nack",
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
    ) -> Call:
        given = {"epoch": _given(epoch), "nonce": _given(nonce)}
        return self._call("extend", topic, message_id, **given, lease_ms=lease_ms, by=self.by())

    def delete(
        self,
        topic: str,
        message_id: str,
        *,
        release: bool,
        created_ms: int | None = None,
        seen: str = "",
        even_releasing: bool = False,
    ) -> Call:
        """`seen`: deletes only this version (`Record.version`). `even_releasing`: deletes also a message that is being
        released ahead of its moment."""
        ahead_ms = 0 if even_releasing else AHEAD_MS
        return self._call(
            "delete",
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
        only_later: bool = False,
        ttl_ms: int | None = None,
        max_retry: int | None = None,
        labels: str | None = None,
        envelope: bytes | None = None,
    ) -> Call:
        """Changes what is given. `seen`: changes only this version (`Record.version`). `envelope`: of new content. It
        needs a successor."""
        return self._call(
            "change",
            record.topic,
            record.id,
            epoch=record.epoch,
            nonce=record.nonce,
            seen=seen,
            **_successor(record, next_nonce),
            arrives_ms=_given(arrives_ms),
            due_ms=_given(due_ms),
            only_later=int(only_later),
            ttl_ms=_given(ttl_ms),
            max_retry=_given(max_retry),
            new_labels=_AS_IT_IS if labels is None else labels,
            content=int(envelope is not None),
            envelope=envelope or b"",
            by=self.by(),
        )

    def replace(self, record: Record, copy: Copy, *, envelope: bytes, labels: str = "") -> Call:
        return self._call(
            "replace",
            record.topic,
            record.id,
            epoch=record.epoch,
            nonce=record.nonce,
            **_successor(record, copy.nonce),
            created_ms=copy.created_ms,
            due_ms=copy.due_ms,
            expires_ms=copy.expires_ms,
            max_retry=copy.max_retry,
            envelope=envelope,
            new_labels=labels,
            by=self.by(),
        )

    def retry(self, record: Record, *, next_nonce: int, due_ms: int, attempts: int, reason: str) -> Call:
        return self._call(
            "retry",
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

    def bury(self, record: Record, *, next_nonce: int, attempts: int, reason: str) -> Call:
        return self._call(
            "bury",
            record.topic,
            record.id,
            epoch=record.epoch,
            nonce=record.nonce,
            **_successor(record, next_nonce),
            attempts=attempts,
            reason=reason,
            by=self.by(),
        )

    def replay(self, copy: Copy, *, next_nonce: int, max_retry: int, expires_ms: int) -> Call:
        return self._call(
            "replay",
            copy.topic,
            copy.id,
            epoch=copy.epoch,
            nonce=copy.nonce,
            next_epoch=copy.epoch + 1,
            next_nonce=next_nonce,
            max_retry=max_retry,
            created_ms=copy.created_ms,
            expires_ms=expires_ms,
            by=self.by(),
        )

    def drop(self, topic: str, message_id: str, *, epoch: int | None, nonce: int | None = None) -> Call:
        return self._call("drop", topic, message_id, epoch=_given(epoch), nonce=_given(nonce), by=self.by())

    def restore(self, record: Record, restored: Record, envelope: Envelope) -> Call:
        """Restores a message. `record`: as it was. `restored`: as it will be, which has the epoch and nonce of the copy
        that is published for it."""
        body = envelope.body
        return self._call(
            "restore",
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
            labels=record.labels,
            by=self.by(),
        )

    def look(self, topic: str, message_id: str) -> Call:
        return self._call("look", topic, message_id)

    def timeline(self, topic: str, message_id: str) -> Call:
        return self._call("timeline", topic, message_id)

    def weigh(self, topic: str, message_id: str) -> Call:
        return self._call("weigh", topic, message_id)

    def superseded(self, copies: Sequence[Copy]) -> Call:
        """Asks which copies are ghosts by their epoch. All records must have one home, and no epoch may be 0."""
        keys = tuple(self.keys.record(copy.topic, copy.id)[0] for copy in copies)
        return Call(SCRIPTS["superseded"], keys, tuple(copy.epoch for copy in copies))

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
    ) -> Call:
        """The answer is read by `pages.read_part`."""
        due_ms, message_id = cursor or (0, "")
        args = (states, due_from_ms, due_to_ms, due_ms, message_id, limit, order, prefix)
        return Call(SCRIPTS["page"], self.keys.indexes(topic, bucket)[:7], args)

    def labelled(self, topic: str, bucket: int, *, labels: str, **of_page: Any) -> Call:
        """As `page`, of the messages with all these labels, which `labels.packed` has written."""
        page = self.page(topic, bucket, **of_page)
        return Call(SCRIPTS["labelled"], (*page.keys, self.keys.indexes(topic, bucket)[-1]), (*page.args, labels))

    def counts(self, topic: str, bucket: int, *, edges_ms: tuple[int, ...]) -> Call:
        return Call(SCRIPTS["counts"], self.keys.indexes(topic, bucket), (self.now, *edges_ms))


def _given(value: int | str | None) -> int | str:
    return "" if value is None else value


def _facts(copy: Copy) -> tuple[int, ...]:
    return (copy.epoch, copy.nonce, copy.attempt, copy.max_retry, copy.due_ms, copy.expires_ms, copy.created_ms)


def _successor(record: Record, next_nonce: int | None) -> dict[str, int | str]:
    if next_nonce is None:
        return {"next_epoch": "", "next_nonce": ""}
    return {"next_epoch": record.epoch + 1, "next_nonce": next_nonce}
