"""Calls every script that changes records, from every kind of record and with every kind of copy.

`search.py` sees what the bridge does in a few scenarios. This module sees what the scripts do for any caller. Of all
records that are alike (`_kind`), it calls the scripts for the first one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from bridge.model.message import Copy, Envelope, Record, State
from bridge.store.calls import Call
from bridge.store.keys import Keys
from bridge.store.messages.records import NamedBefore, Records
from tests.explore.processes import RETENTION_MS, TOMBSTONE_MS
from tests.explore.state import BORN_MS, TOPIC
from tests.explore.stored import (
    ARRIVES,
    ATTEMPTS,
    CLAIMED,
    DUE,
    EPOCH,
    EXPIRES,
    FORGET,
    LEASE_UNTIL,
    MAX_RETRY,
    NONCE,
    STATE,
    Stored,
    named,
)
from tests.life_table import FORGETTING, TABLE, Arrow
from tests.records import claim, draft
from tests.records import record as a_record

ID: Final = "a"
_RECORDS: Final = Records(
    keys=Keys("e"), retention_ms=RETENTION_MS, tombstone_ms=TOMBSTONE_MS, timelines=False, now="1"
)
_SOON_MS, _TTL_MS, _LEASE_MS = 5_000, 1_000, 60_000
_TAKE_OVER_MS: Final = 10_001  # as in schedule.lua
_BACK_MS: Final = 3_600_000


def arrows(redis: Stored) -> dict[Arrow, str]:
    """Returns the arrows that some call makes, each with the first such call.

    Raises:
        LookupError: a script moves a record as its header does not say.
    """
    seen: set[Any] = set()
    found: dict[Arrow, str] = {}
    frontier = [(redis.empty, BORN_MS)]
    while frontier:
        further = []
        for store, now_ms in frontier:
            for call in _calls(store.records.get(ID), now_ms):
                _, after = redis.run(store, call, now_ms)
                if arrow := TABLE.arrow(call.script.name, named(store, ID), named(after, ID)):
                    found.setdefault(arrow, f"{call.args[5:]}")
                further.append((after, now_ms))
            for later_ms in _moments(store.records.get(ID), now_ms):
                after = redis.forget(store, later_ms)
                if arrow := TABLE.arrow(FORGETTING, named(store, ID), named(after, ID)):
                    found.setdefault(arrow, "its expiry")
                further.append((after, later_ms))
        frontier = []
        for store, now_ms in further:
            kind = _kind(store.records.get(ID), now_ms)
            if kind not in seen:
                seen.add(kind)
                frontier.append((store, now_ms))
    return found


def _kind(record: tuple[Any, ...] | None, now_ms: int) -> Any:
    """What tells two records apart here: how their numbers compare, rather than the numbers."""
    if record is None:
        return None

    def passed(moment_ms: int) -> bool | None:
        return now_ms >= moment_ms if moment_ms else None

    state = State(record[STATE])
    if state.ended:
        return state, record[FORGET] > 0, record[CLAIMED] > 0
    return (
        state,
        state is State.UNCONFIRMED and record[EPOCH] > 1,
        record[ATTEMPTS] > 0,
        record[ATTEMPTS] > record[MAX_RETRY],
        record[NONCE] == 0,
        passed(record[CLAIMED] and record[CLAIMED] + _TAKE_OVER_MS),
        record[FORGET] > 0,
        passed(record[DUE]),
        passed(record[EXPIRES]),
        passed(record[LEASE_UNTIL]),
        record[LEASE_UNTIL] > record[ARRIVES],
        record[LEASE_UNTIL] > now_ms + _BACK_MS,
    )


def _moments(record: tuple[Any, ...] | None, now_ms: int) -> Iterator[int]:
    """Yields the moments at which a call may do something else. The clock may also be set back."""
    if record is None:
        return
    if record[STATE] == State.LEASED and record[LEASE_UNTIL] - now_ms < _BACK_MS:
        yield now_ms - _BACK_MS
    moments = {record[CLAIMED] + _TAKE_OVER_MS, record[DUE], record[LEASE_UNTIL], record[EXPIRES], record[FORGET]}
    yield from (moment for moment in sorted(moments) if moment > now_ms)


def _calls(fields: tuple[Any, ...] | None, now_ms: int) -> Iterator[Call[Any]]:
    """Yields calls of all scripts that change records. `fields`: of the present record."""
    nonce = (fields[NONCE] if fields else 0) + 1
    for delay_ms in (0, _SOON_MS):
        for ttl_ms in (-1, _TTL_MS):
            wanted = draft(topic=TOPIC, id=ID, delay_ms=delay_ms)
            claimed = claim(id=ID, ttl_ms=ttl_ms, max_retry=0, nonce=nonce)
            yield _RECORDS.schedule(wanted, claimed)
            entered = claimed.record(wanted, now_ms)
            if fields is None:
                for direct in (False, True):
                    yield _RECORDS.enter(entered, direct=direct, instant=False, envelope=b"", by="-")
    record = _record(fields, now_ms)
    if fields is not None:
        yield from _calls_by_record(record, now_ms)
    for state in (State.WAITING, State.DEAD):
        later = replace(record, state=state, epoch=record.epoch + 1, nonce=record.nonce + 1)
        yield _RECORDS.restore(later, replace(later, nonce=later.nonce + 1), Envelope())
    for copy in _copies(record, fields is not None, now_ms):
        yield from _calls_by_copy(copy)


def _record(fields: tuple[Any, ...] | None, now_ms: int) -> Record:
    """Returns the present record; without one, the record that a copy of a lost message had."""
    if fields is None:
        return a_record(topic=TOPIC, id=ID, nonce=1, created_ms=now_ms - 1, due_ms=now_ms, max_retry=0)
    values: Any = (State(fields[STATE]), *fields[EPOCH:CLAIMED], "")
    return Record(TOPIC, ID, *values)


def _calls_by_record(record: Record, now_ms: int) -> Iterator[Call[Any]]:
    for ready, direct in ((True, False), (False, True), (False, False)):
        yield _RECORDS.confirm(record, ready=ready, direct=direct)
    yield _RECORDS.abandon(record)
    yield _RECORDS.withdraw(record)
    yield _RECORDS.keep(record, b"{}")
    for epoch in (None, record.epoch, "delivered"):
        for copy_gone in (False, True):
            yield _RECORDS.ack(TOPIC, ID, epoch=epoch, nonce=record.nonce, copy_gone=copy_gone)
    for next_nonce in (record.nonce + 1, None):
        for due_ms in (now_ms, now_ms + _SOON_MS):
            yield _RECORDS.nack(record, next_nonce=next_nonce, due_ms=due_ms, reason="failed")
            yield _RECORDS.change(record, next_nonce=next_nonce, arrives_ms=due_ms, due_ms=due_ms)
    yield _RECORDS.extend(TOPIC, ID, epoch=None, lease_ms=2 * _LEASE_MS)
    yield _RECORDS.delete(TOPIC, ID, release=False, even_releasing=True)
    yield _RECORDS.drop(TOPIC, ID, epoch=None)
    yield _RECORDS.bury(record, next_nonce=record.nonce + 1, attempts=1, reason="")
    yield _RECORDS.retry(record, next_nonce=record.nonce + 1, due_ms=now_ms, attempts=1, reason="")
    successor = _copy(record, epoch=record.epoch + 1, nonce=record.nonce + 1, created_ms=now_ms)
    yield _RECORDS.replace(record, successor, draft(topic=TOPIC, id=ID), envelope=b"")


def _copy(record: Record, **changed: Any) -> Copy:
    facts: dict[str, Any] = {
        "epoch": record.epoch,
        "nonce": record.nonce,
        "attempt": record.attempts + 1,
        "max_retry": record.max_retry,
        "due_ms": record.due_ms,
        "expires_ms": record.expires_ms,
        "created_ms": record.created_ms,
    }
    return Copy(topic=TOPIC, id=ID, **{**facts, **changed}, envelope=Envelope())


def _copies(record: Record, exists: bool, now_ms: int) -> Iterator[Copy]:
    """Yields the record's copy, an AMQP client's own one, and copies that no record has named yet."""
    newer = {"epoch": record.epoch + 1, "nonce": record.nonce + 1}
    if exists:
        yield _copy(record)
    kinds: list[dict[str, Any]] = [newer, {**newer, "created_ms": record.created_ms + 1}] if exists else [{}]
    for due_ms in (now_ms, now_ms + _SOON_MS):
        for expires_ms in (0, now_ms):
            yield _copy(record, epoch=0, nonce=0, attempt=1, due_ms=due_ms, expires_ms=expires_ms)
        for kind in kinds:
            for attempt, expires_ms in ((1, 0), (1, now_ms), (2, now_ms)):
                yield _copy(record, **kind, attempt=attempt, due_ms=due_ms, expires_ms=expires_ms)


def _calls_by_copy(copy: Copy) -> Iterator[Call[Any]]:
    yield _RECORDS.fire(copy, paused_ms=0, adopt=False)
    yield _RECORDS.fire(copy, paused_ms=_SOON_MS, adopt=False)
    yield _RECORDS.fire(copy, paused_ms=0, adopt=True)
    yield _RECORDS.fire(copy, paused_ms=0, adopt=False, named=NamedBefore.MESSAGE)
    for counted in (False, True):
        yield _RECORDS.lease(
            copy, next_nonce=copy.nonce + 1, lease_ms=_LEASE_MS, arrives_in_ms=_LEASE_MS, counted=counted
        )
    for by_ttl in (False, True):
        yield _RECORDS.returned(copy, by_ttl=by_ttl)
    if copy.epoch:
        yield _RECORDS.replay(copy, next_nonce=copy.nonce + 1, max_retry=1, due_ms=copy.due_ms, expires_ms=0)
