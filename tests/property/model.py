"""States the promises of the scripts in plain Python: the verdict of each call, and the invariants after each step.

It is written independently of the scripts, so where the two differ, one of them is wrong.
"""

from __future__ import annotations

from bridge.model.message import Copy, Record, State
from bridge.model.timeline import MOST, What
from bridge.store.messages.records import AHEAD_MS, NamedBefore
from tests.property.world import Broker, Kept

TAKE_OVER_AFTER_MS = 10_000
SKEW_MS = 1_000
LONGEST_TRANSITION = 140  # bytes: with a token and a long reason

MAKES = {
    "schedule": {State.UNCONFIRMED},
    "confirm": {State.WAITING, State.READY},
    "enter": {State.WAITING},
    "abandon": {State.UNCONFIRMED},
    "withdraw": {State.UNCONFIRMED},
    "keep": set(),
    "fire": {State.WAITING, State.LEASED, State.READY, State.EXPIRED, State.DEAD},
    "returned": {State.READY, State.EXPIRED, State.DEAD},
    "retry": {State.WAITING},
    "lease": {State.LEASED, State.EXPIRED, State.DEAD},
    "lease_copy": set(),
    "ack": {State.ACKED},
    "announce": set(),
    "nack": {State.WAITING, State.LEASED},  # leased: its retries are used up, and only the lease copy has the body
    "extend": {State.LEASED},
    "delete": {State.DELETED},
    "change": {State.WAITING},
    "replace": {State.WAITING},
    "bury": {State.DEAD},
    "replay": {State.WAITING},
    "drop": {State.DELETED},
}
"""The states in which each script may leave a record it has changed."""

CLIENTS_OWN = "the copy of a client's own message"
"""Such a copy begins a new life, whichever script decides about it."""

FORGOTTEN = "the copy of a later message of the id, which the record has forgotten"
"""So does such a copy."""

SECOND_TIME = {
    "made": {"release"},
    # A client's copy: by then its message is ready, so it may be another one under the id, and not due yet.
    "release": {"made", "beside"},
    "expired": {"ghost"},
    "dropped": {"stale"},
    "nacked": {"stale"},
    "withdrawn": {"kept"},
    "releasing": {"stale"},
    "changed": {"stale"},  # only if the caller named the version that it had seen
}
"""The verdicts of a second run that differ from the first. A second run changes nothing."""

TRANSITIONS = {
    "leased": What.LEASED,
    "acked": What.ACKED,
    "nacked": What.NACKED,
    "retried": What.RETRIED,
    "buried": What.BURIED,
    "replayed": What.REPLAYED,
    "expired": What.EXPIRED,
    "deleted": What.DELETED,
    "dropped": What.DROPPED,
}
"""The transition that a verdict tells, if the record has changed."""


def scheduled(kept: Kept, now_ms: int) -> str:
    record = kept.record
    if record is None:
        return "created"
    if record.state.ended:
        # Only if no send of the message was answered, this one is taken for the same send again.
        return "exists" if kept.claimed_ms > 0 else "created"
    if record.state is not State.UNCONFIRMED:
        return "exists"
    return "created" if now_ms - kept.claimed_ms >= TAKE_OVER_AFTER_MS else "busy"


def entered(copy: Copy, record: Record | None, now_ms: int) -> str:
    return "entered" if record is not None or now_ms < copy.due_ms else "unanswered"


def judged(copy: Copy, kept: Kept, named: NamedBefore = NamedBefore.MESSAGE) -> str:
    """The relation of a copy to its record: `new` (no record), `its` (the live copy), `another` (of a life that the
    record does not know), `ghost` or `ahead`."""
    record = kept.record
    if record is None:
        return "new"
    if is_of_another_life(copy, kept):
        return "another"
    if is_of_forgotten(copy, kept, named):
        return "another"
    epoch = max(1, copy.epoch)
    ghost = "another" if is_of_lost_time(copy, kept) else "ghost"
    if record.epoch < epoch:
        is_over = record.state.ended and not is_letter(record)
        return ghost if is_over or copy.nonce in kept.refused else "ahead"
    its = record.epoch == epoch and record.nonce == copy.nonce and not record.state.ended
    return "its" if its else ghost


def is_of_another_life(copy: Copy, kept: Kept) -> bool:
    """Whether the record says nothing about the copy: the copy is older than the record's life, or both began one. An
    AMQP client's own copy has no moment of ours."""
    record = kept.record
    if record is None or copy.epoch == 0:
        return False
    if kept.born_ms is not None and copy.created_ms < kept.born_ms:
        return True
    return copy.epoch == record.epoch == 1 and copy.nonce != record.nonce


def is_of_lost_time(copy: Copy, kept: Kept) -> bool:
    """Whether the copy is of a message that the record can't know: its id was used before Redis lost the record. The
    moment of its return may be wrong, so a message that the record has had since is none of these."""
    record = kept.record
    if record is None or kept.found_ms is None or copy.epoch == 0:
        return False
    return copy.created_ms <= kept.found_ms and copy.created_ms not in (
        kept.born_ms,
        record.created_ms,
        *kept.known_ms,
    )


def is_known(copy: Copy, kept: Kept) -> bool:
    """Whether the record has had the copy's message."""
    assert kept.record is not None
    known_ms = kept.known_ms or (kept.record.created_ms,)
    if copy.created_ms % 1_000 == 999 and any(0 < copy.created_ms - moment_ms < 1_000 for moment_ms in known_ms):
        return True  # a copy of an earlier version
    return copy.created_ms <= known_ms[0] or copy.created_ms in known_ms


def is_of_forgotten(copy: Copy, kept: Kept, named: NamedBefore) -> bool:
    """Whether the copy is of a message that the record has not had, and not of its next one."""
    record = kept.record
    if record is None or copy.epoch == 0 or copy.nonce in kept.refused or is_known(copy, kept):
        return False
    if (record.epoch, record.nonce) == (copy.epoch, copy.nonce):
        return False
    is_later = copy.created_ms > record.created_ms
    if is_later and is_live(record) and record.epoch < copy.epoch:
        return False
    if named is NamedBefore.FORMER:
        return is_later and record.state is not State.DELETED
    return named is NamedBefore.MESSAGE


def has_forgotten(copy: Copy, record: Record | None) -> bool:
    """Whether the record has forgotten the later message of its id that the copy is of."""
    if record is None or copy.epoch == 0:
        return False
    later_ms = copy.created_ms - record.created_ms
    if copy.created_ms % 1_000 == 999 and later_ms < 1_000:
        return False  # a copy of an earlier version
    return record.state.ended and record.epoch < copy.epoch and later_ms > 0


def is_live(record: Record) -> bool:
    return State.WAITING <= record.state <= State.LEASED


def is_releasing(record: Record, now_ms: int) -> bool:
    """Whether the message is ready ahead of its due moment."""
    return record.state is State.READY and 0 < record.due_ms - now_ms <= AHEAD_MS


def is_free_for_client(record: Record, now_ms: int) -> bool:
    """Whether a client's own copy begins a new message: the id is free, or its message may have been consumed without
    the bridge. Only a record of a direct topic waits and has a moment to be forgotten."""
    if record.state is State.WAITING:
        return record.forget_ms > 0 and record.due_ms <= now_ms
    return record.state is not State.LEASED


def may_be_received(record: Record, now_ms: int) -> bool:
    """Whether a consumer may have received the message since it was sent, replaced or replayed."""
    if record.state not in (State.UNCONFIRMED, State.WAITING) or record.attempts:
        return True
    return record.forget_ms > 0 and record.arrives_ms <= now_ms


def is_letter(record: Record) -> bool:
    """Whether the message is in its dead-letter queue. It is not if its time to live has passed."""
    return record.state is State.DEAD and not record.forget_ms


def is_named(record: Record, epoch: int | None, nonce: int | None) -> bool:
    """Whether a receipt, or an id alone, names the live copy of the record."""
    return epoch in (None, record.epoch) and nonce in (None, record.nonce)


def is_set_aside(before: Record | None, after: Record | None, cause: str) -> bool:
    """Whether a dead letter goes on under another id, because a new message began under its own."""
    began = before is not None and after is not None and after.nonce != before.nonce
    return began and before is not None and is_letter(before) and cause in ("schedule", CLIENTS_OWN, FORGOTTEN)


def superseded(copy: Copy, kept: Kept) -> bool:
    """Whether a copy is a ghost by its epoch alone."""
    record = kept.record
    if record is None or (record.state is State.DEAD and record.epoch < copy.epoch):
        return False
    if is_of_another_life(copy, kept) or is_of_lost_time(copy, kept) or has_forgotten(copy, record):
        return False
    if not is_known(copy, kept):
        return False  # it may be of a forgotten message
    return record.state.ended or record.epoch > copy.epoch


def fired(copy: Copy, kept: Kept, now_ms: int, *, paused: bool, adopt: bool, named: NamedBefore) -> str:
    record, which = kept.record, judged(copy, kept, named)
    if named is NamedBefore.MESSAGE and has_forgotten(copy, record):
        which, record = "new", None
    if named is NamedBefore.FORMER and not adopt and is_of_forgotten(copy, kept, named):
        which = "another" if is_of_another_life(copy, kept) else "ahead"
    if copy.epoch == 0 and record is not None:
        # A message of an AMQP client. Under the id of a message that certainly lives, it is that one or a duplicate.
        which = "new" if is_free_for_client(record, now_ms) else "its" if record.nonce == copy.nonce else "ghost"
    waits = record is not None and record.state is State.WAITING and record.due_ms > now_ms
    if which in ("ghost", "another") or (which == "ahead" and (waits or not adopt)):
        return which
    its = record if record is not None and which == "its" else None
    due_ms = its.due_ms if its else copy.due_ms
    lease_until_ms = its.lease_until_ms if its else 0
    expires_ms, max_retry = (its.expires_ms, its.max_retry) if its else (copy.expires_ms, copy.max_retry)
    if 0 < expires_ms <= now_ms and lease_until_ms <= now_ms:
        return "expired"
    beside = which == "new" and record is not None and is_live(record)
    if paused or now_ms < due_ms - AHEAD_MS or now_ms < lease_until_ms:
        return "beside" if beside else "hold"
    if copy.attempt > max_retry + 1:
        return "bury"
    return "made" if which == "new" else "release"


def is_delivered(copy: Copy, kept: Kept) -> bool:
    """Whether the copy is the delivery in place of the lease copy that the record names."""
    record = kept.record
    if record is None or not is_live(record):
        return False
    return copy.nonce == kept.delivered and copy.epoch == record.epoch - 1


def is_left(copy: Copy, record: Record | None) -> bool:
    """Whether the record has left the lease of this lease copy for certain."""
    return record is not None and (record.state.ended or record.epoch > copy.epoch)


def leased(copy: Copy, kept: Kept, now_ms: int) -> str:
    record = kept.record
    which = judged(copy, kept)
    if is_delivered(copy, kept):
        return "delivered"
    if has_forgotten(copy, record):
        which, record = "new", None
    if copy.epoch == 0 and which != "its" and record is not None and is_free_for_client(record, now_ms):
        return "hold"  # for the checkpoint, which decides
    if which in ("ghost", "ahead", "another"):
        return which
    due_ms, expires_ms = (record.due_ms, record.expires_ms) if record else (copy.due_ms, copy.expires_ms)
    if 0 < expires_ms <= now_ms:
        return "expired"
    return "hold" if now_ms < due_ms else "leased"


def returned(copy: Copy, kept: Kept, now_ms: int, *, by_ttl: bool) -> str:
    record = kept.record
    which = judged(copy, kept)
    if is_delivered(copy, kept):
        return "delivered"
    if has_forgotten(copy, record):
        which, record = "new", None
    if copy.epoch == 0 and record is not None:
        which = "its" if record.nonce == 0 and is_live(record) else which
        if which != "its" and is_free_for_client(record, now_ms):
            which, record = "new", None
    if which in ("ghost", "ahead", "another"):
        return which
    expires_ms, max_retry = (record.expires_ms, record.max_retry) if record else (copy.expires_ms, copy.max_retry)
    if 0 < expires_ms <= now_ms + (SKEW_MS if by_ttl else 0):
        return "expired"
    if by_ttl and "expiration" in copy.envelope.properties:
        return "expired"  # the client's own, which counts from the release
    return "bury" if copy.attempt > max_retry else "retry"


def begins(script: str, epoch: int, verdict: str, before: Record | None, after: Record, *, now_ms: int) -> bool:
    """Whether the script began a new life. `epoch`: of the copy, in fire and returned."""
    if before is None or (script == "schedule" and verdict == "created"):
        return before is None or (before.epoch, before.nonce) != (after.epoch, after.nonce)
    if script not in ("fire", "returned") or epoch or not is_free_for_client(before, now_ms):
        return False
    if script == "returned":
        return not (is_live(before) and before.nonce == 0)
    return verdict != "beside" and not (is_live(before) and verdict == "expired")


def is_untouched(record: Record) -> bool:
    """Whether a record without a timeline shows that nothing has happened since the send."""
    at_once = record.state is State.READY and record.due_ms == record.created_ms
    return record.state is State.UNCONFIRMED or (record.epoch == 1 and (record.state is State.WAITING or at_once))


def tells_the_send(script: str, by: str, after: Record) -> bool:
    """Whether the script that began a life tells who sent the message, or that it is new under a used id."""
    return script in ("schedule", "enter") and (by != "-" or after.epoch > 1)


def transition(
    script: str, epoch: int, verdict: str, before: Record | None, after: Record, *, has_content: bool = False
) -> What | None:
    """The transition that a script tells. `before`: None in a new life. `has_content`: a change of the content."""
    if verdict == "extended":
        return What.EXTENDED
    if verdict == "changed" and before is not None:
        if has_content or _limits(before) != _limits(after):
            return What.CHANGED
        return What.MOVED if (before.epoch, before.due_ms) != (after.epoch, after.due_ms) else None
    if script != "fire" or verdict not in ("release", "made", "bury"):
        return TRANSITIONS.get(verdict) if before != after else None
    if before is not None and before.state is State.READY:
        return None
    its_lease = before is not None and before.lease_until_ms > 0 and epoch <= before.epoch
    return What.RETURNED if its_lease else What.RELEASED


def _limits(record: Record) -> tuple[object, ...]:
    """What a move leaves as it is."""
    return record.expires_ms and record.expires_ms - record.due_ms, record.max_retry, record.labels


def the_index_agrees_with_the_record(kept: Kept) -> None:
    record = kept.record
    if record is None:
        return  # the next count removes its entries, or other scripts do, a few at a time
    wanted = {} if record.state is State.UNCONFIRMED else {record.state.label: record.due_ms}
    if record.forget_ms and record.state is not State.UNCONFIRMED:
        wanted["forget"] = record.forget_ms
    assert kept.scores == wanted


def the_labels_agree_with_the_record(kept: Kept, stale: set[bytes]) -> None:
    """`stale`: entries that lost records have left. A search does not show them, as they are in no other index."""
    wanted: set[str] = set()
    record = kept.record
    if record is not None and record.labels and record.state is not State.UNCONFIRMED:
        place = f"{record.due_ms:013}{record.id}"
        wanted = {f"{label}\n{place}" for label in record.labels.split("\n")}
        if record.forget_ms:
            wanted.add(f"!{record.forget_ms:013}{place}\n{record.labels}")
    assert kept.labels - stale == {entry.encode() for entry in wanted} - stale


def the_key_expires_when_the_record_is_forgotten(kept: Kept) -> None:
    if kept.record is not None:
        assert kept.expiring == (kept.record.forget_ms > 0)


def an_envelope_apart_goes_with_its_record(kept: Kept) -> None:
    if kept.record is not None:
        assert kept.apart_expiring == (kept.expiring if kept.kept == 1 else None)


def a_timeline_is_bounded(kept: Kept) -> None:
    assert len(kept.timeline) <= 2 + MOST * LONGEST_TRANSITION


def a_record_that_waits_or_is_leased_never_expires(kept: Kept, *, direct: bool) -> None:
    record = kept.record
    if record is not None and (record.state is State.LEASED or (record.state is State.WAITING and not direct)):
        assert record.forget_ms == 0


def a_record_outlives_every_copy(kept: Kept, broker: Broker) -> None:
    record = kept.record
    if record is not None and record.forget_ms:
        for placed in broker.wheel:
            assert not placed.recorded or placed.arrives_ms < record.forget_ms


def an_end_is_left_only_for_a_new_life(before: Record | None, after: Record | None, cause: str) -> None:
    if before is not None and before.state.ended and after is not None and after.state is not before.state:
        a_new_life = cause in ("schedule", "replay", CLIENTS_OWN, FORGOTTEN)
        a_new_life |= cause == "fire" and is_letter(before)
        assert a_new_life or (cause == "drop" and after.state is State.DELETED)
        assert cause == "drop" or after.epoch > before.epoch


def a_script_makes_only_its_own_states(before: Record | None, after: Record | None, script: str) -> None:
    if after is not None and (before is None or (before.state, before.epoch) != (after.state, after.epoch)):
        assert after.state in MAKES[script]


def no_more_attempts_than_the_retries_allow(kept: Kept) -> None:
    if kept.record is not None:
        assert kept.record.attempts <= kept.record.max_retry + 1


def the_live_copy_stands_on_the_broker(kept: Kept, broker: Broker) -> None:
    record = kept.record
    if record is not None and is_live(record):
        names = (record.epoch, record.nonce)
        if kept.delivered is not None:
            names = (record.epoch - 1, kept.delivered)
        in_flight = any(one.names == names and not one.done for one in (*broker.wheel, *broker.ready))
        own = (one.copy for one in (*broker.wheel, *broker.ready))
        in_flight |= any((copy.epoch, copy.nonce) == (0, record.nonce) for copy in own)
        # A client's copy counts as taken at epoch 1.
        assert in_flight or not broker.taken.isdisjoint((names, (1, record.nonce)))
