"""Checks what must hold in every state, and notes what became of each message. Pure.

The numbers are those of `docs/guarantees.md`.
"""

from __future__ import annotations

from typing import Any

from bridge.broker.publications import Publication, Route
from bridge.model.message import State as Stage
from bridge.store.calls import Call
from bridge.store.messages.outcomes import Outcome
from tests.explore.state import State, Told
from tests.explore.stored import ATTEMPTS, CREATED, DUE, FORGET, MAX_RETRY, STATE, Store, id_of, is_record

_INDEXES = ("waiting", "ready", "leased", "acked", "expired", "dead", "deleted")
_WRITES_DUE = frozenset(("schedule", "enter", "change", "replace", "nack", "retry", "replay"))
_NAMES = frozenset(("created", "entered", "changed", "replaced", "nacked", "retried", "replayed"))


class Broken(Exception):
    """A promise is broken."""


def check(state: State) -> None:
    """Raises Broken if a promise does not hold in this state."""
    carried = _carried(state)
    _nothing_is_lost(state, carried)
    _nothing_is_kept_for_ever(state, carried)
    if not state.store.sound:
        _indexes_equal_records(state.store)
        for message_id, record in state.store.records.items():
            if record[ATTEMPTS] > record[MAX_RETRY] + 1:
                raise Broken(f"5. {message_id} has had {record[ATTEMPTS]} deliveries")
        state.store.sound = True


def _carried(state: State) -> set[int]:
    """The messages that RabbitMQ has, by their moments of creation."""
    copies = [one.copy for one in state.copies]
    copies += [task.taken.copy for task in state.tasks if task.taken is not None]
    leases = [*state.leases, *(task.lease for task in state.tasks if task.lease is not None)]
    return {copy.created_ms for copy in copies} | {lease.copy.created_ms for lease in leases}


def _nothing_is_lost(state: State, carried: set[int]) -> None:
    for created_ms, told in state.told:
        if told.accepted and not told.over and created_ms not in carried:
            raise Broken(f"2. the message of {created_ms} was accepted, has not ended, and no queue has it")


def _indexes_equal_records(store: Store) -> None:
    listed: dict[str, dict[str, float]] = {}
    for entry in store.entries:
        if not isinstance(entry.value, bytes):
            name = entry.key.rpartition(b"/")[2].decode()
            listed[name] = {member.decode(): score for member, score in entry.value}
        elif is_record(entry) and entry.expires != (store.records[id_of(entry)][FORGET] > 0):
            raise Broken(f"5. the record of {id_of(entry)} expires: {entry.expires}")
    for message_id, record in store.records.items():
        stands = {name: scores[message_id] for name, scores in listed.items() if message_id in scores}
        expected: dict[str, float] = {} if record[STATE] == 0 else {_INDEXES[record[STATE] - 1]: record[DUE]}
        if record[STATE] != 0 and record[FORGET]:
            expected["forget"] = record[FORGET]
        if stands != expected:
            raise Broken(f"index: there is {stands} of {message_id}, whose record says {expected}")


def _nothing_is_kept_for_ever(state: State, carried: set[int]) -> None:
    over = {created_ms for created_ms, told in state.told if told.over}
    for message_id, record in state.store.records.items():
        if not record[FORGET] and record[CREATED] not in carried | over:
            raise Broken(f"5. the record of {message_id} is kept for ever: no queue has its message")


def after_call(state: State, call: Call[Any], answer: Any, store: Store) -> State:
    """Returns the state after a script has run, with what it did to its message. Raises Broken."""
    outcome = call.read(call, [*answer]) if isinstance(answer, tuple) else None
    before = state.store.records.get(call.message_id)
    state = state._replace(store=store)
    if not isinstance(outcome, Outcome) or outcome.record is None:
        return state
    record, verdict, name = outcome.record, str(outcome.verdict), call.script.name
    told = dict(state.told)
    own = told.get(record.created_ms, Told())
    if name in _WRITES_DUE and verdict in _NAMES:
        own = own._replace(due_ms=record.due_ms)
    match name, verdict:
        case "ack", "acked":
            own = own._replace(over=own.over or "acknowledged")
        case "delete", "deleted":
            waited = before is not None and before[STATE] == Stage.WAITING
            own = own._replace(over=own.over or "deleted", deleted=own.deleted or waited)
        case "drop", "dropped":
            own = own._replace(over=own.over or "dropped")
        case (("fire" | "lease" | "returned"), "expired"):
            if not 0 < record.expires_ms <= state.now_ms + 1_000:
                raise Broken(f"{record.id} has expired {record.expires_ms - state.now_ms} ms early")
            own = own._replace(over=own.over or "expired")
        case "lease", "leased" if not state.emptied:
            _may_be_delivered(state, own, record.id)
        case _:
            pass
    told[record.created_ms] = own
    if (
        before is not None
        and before[CREATED] != record.created_ms
        and before[STATE] in (Stage.WAITING, Stage.READY, Stage.LEASED)
    ):
        if verdict == "replaced" or (name == "fire" and call.args[call.script.args.index("adopt")] == 1):
            former = told.get(before[CREATED], Told())
            told[before[CREATED]] = former._replace(over=former.over or "replaced")
        else:
            raise Broken(f"{name} has put another message in place of {record.id}, which lives")
    return state._replace(told=tuple(sorted(told.items())))


def after_publish(state: State, publication: Publication) -> State:
    """Returns the state after a publish. Raises Broken if the copy may not be published.

    A copy that was released before may be released again: its process may have died before it acknowledged."""
    if publication.route is not Route.READY:
        return state
    copy, told = publication.copy, dict(state.told)
    own = told.get(copy.created_ms, Told())
    if copy.nonce not in own.released and not state.emptied:
        _may_be_delivered(state, own, copy.id)
    told[copy.created_ms] = own._replace(released=own.released | {copy.nonce})
    return state._replace(told=tuple(sorted(told.items())))


def _may_be_delivered(state: State, told: Told, message_id: str) -> None:
    if told.deleted:
        raise Broken(f"4. {message_id} is delivered after its delete")
    if told.due_ms > state.now_ms:
        raise Broken(f"3. {message_id} is delivered {told.due_ms - state.now_ms} ms early")
