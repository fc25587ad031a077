"""Checks what must hold in every state, and notes what becomes of each message. Pure.

The numbers are those of `docs/guarantees.md`.
"""

from __future__ import annotations

from typing import Any, Final

from bridge.broker.publications import Publication, Route
from bridge.model.message import Record, aside_id
from bridge.model.message import State as RecordState
from bridge.store.calls import Call
from bridge.store.messages.outcomes import NoRule, Outcome
from bridge.store.messages.records import AHEAD_MS
from tests.explore.state import Carried, Fate, State
from tests.explore.stored import (
    ATTEMPTS,
    CREATED,
    DELIVERED,
    DUE,
    EPOCH,
    FORGET,
    MAX_RETRY,
    NONCE,
    STATE,
    Store,
    id_of,
    is_record,
    named,
)
from tests.life_table import TABLE

_INDEXES: Final = ("waiting", "ready", "leased", "acked", "expired", "dead", "deleted")
_LISTS: Final = frozenset((*_INDEXES, "forget"))
_SENDS: Final = frozenset(("schedule", "enter", "replace"))
_MOVES: Final = frozenset(("change", "nack", "retry", "replay"))
_NAMES: Final = frozenset(("created", "entered", "changed", "replaced", "nacked", "retried", "replayed"))
"""The verdicts with which these scripts have written a due moment."""

_CONFIRMS: Final = frozenset(
    (("schedule", "exists"), ("confirm", "confirmed"), ("enter", "entered"), ("replace", "replaced"))
)
"""Scripts and their verdicts with which a send succeeds."""

_SETTLED: Final = frozenset((("ack", "acked"), ("nack", "nacked"), ("extend", "extended")))

_SKEW_MS: Final = 1_000  # as in returned.lua: RabbitMQ's clock counts


class Broken(Exception):
    """A promise is broken."""


def check(state: State) -> None:
    """Raises Broken if a promise does not hold in this state."""
    carried = _carried(state)
    messages = {copy.created_ms for copy in carried}
    for created_ms, fate in state.fates:
        if fate.accepted and not fate.over and created_ms not in messages:
            raise Broken(f"2. the message of {created_ms} was accepted, has not ended, and no queue has it")
    if not state.failed_over:  # after that, records are older than the copies
        _check_named(state, carried)
    check_store(state.store)


def _check_named(state: State, carried: list[Carried]) -> None:
    """Checks that a queue has the copy of each record that needs one."""
    fates, messages = dict(state.fates), {copy.created_ms for copy in carried}
    names = {(copy.created_ms, copy.epoch, copy.nonce) for copy in carried}
    for message_id, record in state.store.records.items():
        over = fates.get(record[CREATED], Fate()).over
        if not record[FORGET] and record[CREATED] not in messages and over != "consumed":
            raise Broken(f"5. the record of {message_id} is kept for ever: no queue has its message")
        is_letter = record[STATE] == RecordState.DEAD and not record[FORGET]
        if (_lives(record) or is_letter) and not over and not _is_there(record, names):
            raise Broken(f"2. {message_id} lives, and no queue has the copy that its record names")


def _carried(state: State) -> list[Carried]:
    """The copies that RabbitMQ has."""
    copies = [one.copy for one in state.copies]
    copies += [task.taken.copy for task in state.tasks if task.taken is not None]
    leases = [*state.leases, *(task.lease for task in state.tasks if task.lease is not None)]
    return copies + [lease.delivery.copy for lease in leases]


def _is_there(record: tuple[Any, ...], names: set[tuple[int, int, int]]) -> bool:
    """Whether a queue has the copy that the record names, or the delivery in its place."""
    created_ms, epoch = record[CREATED], record[EPOCH]
    of_lease = record[DELIVERED] and (created_ms, epoch - 1, record[DELIVERED]) in names
    return bool(of_lease) or (created_ms, epoch, record[NONCE]) in names


def _lives(record: tuple[Any, ...]) -> bool:
    return bool(RecordState.WAITING <= record[STATE] <= RecordState.LEASED)


def check_store(store: Store) -> None:
    """Checks what concerns Redis alone, once for each content. Raises Broken."""
    if store.sound:
        return
    listed: dict[str, dict[str, float]] = {}
    for entry in store.entries:
        name = entry.key.rpartition(b"/")[2].decode()
        if name in _LISTS and not isinstance(entry.value, bytes):
            listed[name] = {member.decode(): score for member, score in entry.value}
        elif is_record(entry) and entry.expires != (store.records[id_of(entry)][FORGET] > 0):
            raise Broken(f"5. the record of {id_of(entry)} expires: {entry.expires}")
    for message_id, record in store.records.items():
        if record[ATTEMPTS] > record[MAX_RETRY] + 1:
            raise Broken(f"5. {message_id} has had {record[ATTEMPTS]} deliveries")
        found = {name: scores[message_id] for name, scores in listed.items() if message_id in scores}
        expected: dict[str, float] = {} if record[STATE] == 0 else {_INDEXES[record[STATE] - 1]: record[DUE]}
        if record[STATE] != 0 and record[FORGET]:
            expected["forget"] = record[FORGET]
        if found != expected:
            raise Broken(f"index: there is {found} of {message_id}, whose record says {expected}")
    gone = {message_id for scores in listed.values() for message_id in scores} - store.records.keys()
    if left := gone - listed.get("forget", {}).keys():
        raise Broken(f"index: nobody will remove the entries of {', '.join(sorted(left))}")
    store.sound = True


def after_call(state: State, call: Call[Any], answer: Any, store: Store) -> State:
    """Returns the state after a script has run, with what it did to its message. Raises Broken."""
    try:
        outcome = call.read(call, [*answer]) if call.script.of_record else None
    except NoRule:  # of a planted defect
        outcome = None
    _check_moves(call, state.store, store)
    before = state.store.records.get(call.message_id)
    state = state._replace(store=store)
    if not isinstance(outcome, Outcome) or outcome.record is None:
        return state
    record, name = outcome.record, call.script.name
    fates = dict(state.fates)
    said, fate = (name, str(outcome.verdict)), fates.get(record.created_ms, Fate())
    _check_settled(state.now_ms, call, said, before, fate)
    if before is not None and said == ("schedule", "created") and not (state.emptied or state.failed_over):
        _check_repeated(record, before, fates.get(before[CREATED], Fate()))
    if said in _CONFIRMS or (before is None and name not in _SENDS):
        fate = fate._replace(confirmed=True)
    fates[record.created_ms] = _fate(state.now_ms, fate, said, record, before)
    if before is not None and before[CREATED] != record.created_ms and _lives(before):
        is_adopted = name == "fire" and call.args[call.script.args.index("adopt")] == 1
        if outcome.verdict != "replaced" and not is_adopted:
            raise Broken(f"{name} has put another message in place of {record.id}, which lives")
        fates[before[CREATED]] = _over(fates.get(before[CREATED], Fate()), "replaced")
    return state._replace(fates=tuple(sorted(fates.items())))


def _check_moves(call: Call[Any], before: Store, after: Store) -> None:
    """Checks that the header of the script names what the script did to its record, and to no other one."""
    if before.records == after.records:
        return
    for message_id in before.records.keys() | after.records.keys():
        one, other = named(before, message_id), named(after, message_id)
        try:
            if message_id == call.message_id:
                TABLE.arrow(call.script.name, one, other)
            elif one != other and message_id != aside_id(call.message_id, other.nonce if other else 0):
                raise Broken(f"life: {call.script.name} for {call.message_id} changed the record of {message_id}")
        except LookupError as error:
            raise Broken(f"life: {message_id}: {error}") from None


def _check_settled(
    now_ms: int, call: Call[Any], said: tuple[str, str], before: tuple[Any, ...] | None, fate: Fate
) -> None:
    """Checks that a receipt settles its own lease only, and that nobody acks a message before it is due."""
    if before is None or said not in _SETTLED:
        return
    epoch, nonce = (call.args[call.script.args.index(name)] for name in ("epoch", "nonce"))
    if isinstance(epoch, int) and (epoch, nonce) != (before[EPOCH], before[NONCE]):
        raise Broken(f"2. {call.message_id} is {said[1]} by the receipt of another lease")
    if said[0] == "ack" and now_ms + AHEAD_MS < before[DUE] and not (fate.over or fate.released):
        raise Broken(f"2. {call.message_id} is acked {before[DUE] - now_ms} ms before anybody could receive it")


def _check_repeated(record: Record, before: tuple[Any, ...], former: Fate) -> None:
    """Checks that a send makes no second message while no send of the first has succeeded, also if that has ended."""
    if former.over and before[STATE] != RecordState.UNCONFIRMED and not former.confirmed:
        raise Broken(f"1. a send of {record.id} makes a second message, and no send of the first had succeeded")


def _fate(now_ms: int, fate: Fate, said: tuple[str, str], record: Record, before: tuple[Any, ...] | None) -> Fate:
    """What becomes of a message by the answer of a script. `said`: the script and its verdict. `before`: the record of
    the id before."""
    name, verdict = said
    if verdict in _NAMES and name in _SENDS | _MOVES:
        fate = fate._replace(due_ms=record.due_ms, changed=name in _MOVES)
    match said:
        case (("ack" | "drop"), ("acked" | "dropped")):
            return _over(fate, verdict)
        case "delete", "deleted":
            waited = before is not None and before[STATE] == RecordState.WAITING
            return _over(fate, verdict)._replace(deleted=fate.deleted or waited)
        case (("fire" | "lease" | "returned"), "expired"):
            skew_ms = _SKEW_MS if name == "returned" else 0
            if not 0 < record.expires_ms <= now_ms + skew_ms:
                raise Broken(f"{record.id} has expired {record.expires_ms - now_ms} ms early")
            if fate.lease_until_ms > now_ms:
                raise Broken(f"3. {record.id} has expired {fate.lease_until_ms - now_ms} ms before its lease ends")
            return _over(fate, verdict)
        case "fire", ("release" | "made"):
            _may_be_delivered(now_ms + AHEAD_MS, fate, record.id)
        case "lease", "leased":
            _may_be_delivered(now_ms, fate, record.id)
            if before is None or (before[EPOCH], before[NONCE]) != (record.epoch, record.nonce):
                return _leased(now_ms, fate, record)
        case "extend", "extended":
            return fate._replace(lease_until_ms=record.lease_until_ms)
        case (("nack" | "bury" | "replay"), ("nacked" | "buried" | "replayed")):
            return fate._replace(lease_until_ms=0, leases=0 if name == "replay" else fate.leases)
        case _:
            pass
    return fate


def after_publish(state: State, publication: Publication) -> State:
    """Returns the state after a publish. Raises Broken if the copy may not be published.

    A copy that was released before may be released again: its process may have died before it acknowledged."""
    if publication.route is not Route.READY:
        return state
    copy, fates = publication.copy, dict(state.fates)
    fate = fates.get(copy.created_ms, Fate())
    if copy.nonce not in fate.released:
        _may_be_delivered(state.now_ms, fate, copy.id)
    fates[copy.created_ms] = fate._replace(released=fate.released | {copy.nonce})
    return state._replace(fates=tuple(sorted(fates.items())))


def after_loss(state: State) -> State:
    """Returns the state after Redis has lost its data. Deletes are forgotten, and so are changed due moments. The count
    of deliveries begins again."""
    return state._replace(
        fates=tuple(
            (
                created_ms,
                fate._replace(deleted=False, leases=0, lease_until_ms=0, due_ms=0 if fate.changed else fate.due_ms),
            )
            for created_ms, fate in state.fates
        )
    )


def _over(fate: Fate, why: str) -> Fate:
    return fate._replace(over=fate.over or why)


def _may_be_delivered(now_ms: int, fate: Fate, message_id: str) -> None:
    if fate.deleted:
        raise Broken(f"4. {message_id} is delivered after its delete")
    if fate.due_ms > now_ms:
        raise Broken(f"3. {message_id} is delivered {fate.due_ms - now_ms} ms early")


def _leased(now_ms: int, fate: Fate, record: Record) -> Fate:
    if fate.lease_until_ms > now_ms:
        raise Broken(f"3. {record.id} is leased again {fate.lease_until_ms - now_ms} ms before its lease ends")
    if fate.leases > record.max_retry:
        raise Broken(f"5. {record.id} is leased {fate.leases + 1} times")
    return fate._replace(leases=fate.leases + 1, lease_until_ms=record.lease_until_ms)
