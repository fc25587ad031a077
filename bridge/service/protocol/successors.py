"""Builds the copies of a message, from the first copy to a dead letter, and decides where each is published. Pure."""

from __future__ import annotations

from dataclasses import replace

from bridge.broker.copies.copies import CLIENTS_ID
from bridge.broker.copies.open_bundle import EARLY_AT_MOST_MS
from bridge.broker.publications import Publication, Route
from bridge.model.message import UNSET, Copy, CopyKind, Envelope, Record, new_nonce, own_life_id
from bridge.model.values import Effective, Policy, Release


def first_copy(record: Record, envelope: Envelope) -> Copy:
    """Returns the first copy of a sent message, with the values of its record."""
    return Copy(
        topic=record.topic,
        id=record.id,
        epoch=record.epoch,
        nonce=record.nonce,
        attempt=1,
        max_retry=record.max_retry,
        due_ms=record.due_ms,
        expires_ms=record.expires_ms,
        created_ms=record.created_ms,
        envelope=envelope,
    )


def due_at_once(record: Record, policy: Policy) -> bool:
    """Whether a sent message is due now and its topic is not paused."""
    return record.due_ms <= record.created_ms and not policy.paused


def first(record: Record, envelope: Envelope, policy: Policy, left_ms: float, *, detour: bool) -> Publication:
    """Returns the publication of a sent message's first copy: into the ready queue if the message is due at once, else
    into the wheel. A message with a target always passes the checkpoint, because only the checkpoint publishes to
    targets.

    `policy`: the topic's policy. `left_ms`: milliseconds until the message is due. `detour`: the copy goes through the
    checkpoint even if the message is due at once (`sending/detours.py`).
    """
    copy = first_copy(record, envelope)
    to_topic = envelope.target is None
    if due_at_once(record, policy) and to_topic and not detour:
        live_for_ms = record.expires_ms - record.created_ms if record.expires_ms else 0
        return Publication(copy=copy, route=Route.READY, live_for_ms=live_for_ms)
    checked = detour or not to_topic or policy.release is Release.CHECKED
    # The topic may be direct when the copy leaves the wheel. A plain key would lead past the checkpoint then.
    kind = CopyKind.CHECKED if checked else CopyKind.PLAIN
    return Publication(
        copy=copy, route=Route.WHEEL, left_ms=max(0.0, left_ms), exact=checked, kind=kind, shares=checked
    )


def completed(copy: Copy, policy: Effective) -> Copy:
    """Returns the copy with its number of retries and its time to live; the topic's policy gives a value that an AMQP
    client left out."""
    if copy.epoch and copy.max_retry != UNSET:
        return copy
    lives_ms = policy.ttl_ms if copy.epoch == 0 else None
    return replace(
        copy,
        max_retry=policy.max_retry if copy.max_retry == UNSET else copy.max_retry,
        expires_ms=copy.due_ms + lives_ms if lives_ms is not None and not copy.expires_ms else copy.expires_ms,
    )


def successor(record: Record, envelope: Envelope, *, nonce: int, attempt: int, due_ms: int) -> Copy:
    """Returns the next copy of a message, one epoch later than the live copy. `attempt`: the number of the delivery
    that this copy makes, from 1. `due_ms`: when this copy is due, in Unix ms."""
    return Copy(
        topic=record.topic,
        id=record.id,
        epoch=record.epoch + 1,
        nonce=nonce,
        attempt=attempt,
        max_retry=record.max_retry,
        due_ms=due_ms,
        expires_ms=record.expires_ms,
        created_ms=record.created_ms,
        envelope=envelope,
    )


def lease_copy(copy: Copy, due_ms: int, *, counted: bool) -> Copy:
    """Returns the lease copy for a delivered copy. `due_ms`: the end of the lease, in Unix ms. `counted`: this delivery
    counts as an attempt, so the lease copy has the next attempt number; False: it has the attempt number of this
    delivery."""
    # `replace` would take 4 us, and every pulled message needs this copy.
    return Copy(
        topic=copy.topic,
        id=copy.id,
        epoch=max(copy.epoch, 1) + 1,
        nonce=new_nonce(),
        attempt=copy.attempt + counted,
        max_retry=copy.max_retry,
        due_ms=due_ms,
        expires_ms=copy.expires_ms,
        created_ms=copy.created_ms,
        envelope=copy.envelope,
    )


def replay_copy(letter: Copy, now_ms: int, *, max_retry: int | None = None, ttl_ms: int | None = None) -> Copy:
    """Returns the copy that makes a dead letter due again. `max_retry`: the new retry limit; None: the dead letter's
    limit stays. `ttl_ms`: the new time to live in ms, from `now_ms` on; None: no time to live."""
    return replace(
        letter,
        epoch=letter.epoch + 1,
        nonce=new_nonce(),
        attempt=1,
        max_retry=letter.max_retry if max_retry is None else max_retry,
        due_ms=now_ms,
        expires_ms=0 if ttl_ms is None else now_ms + ttl_ms,
    )


def as_recorded(copy: Copy, record: Record) -> Copy:
    """Returns the copy with epoch, nonce, moments and retry limit of its record. They may be newer: the message may
    have been moved, or its lease extended, after the copy was published."""
    if (copy.epoch, copy.nonce, copy.created_ms, copy.due_ms, copy.expires_ms, copy.max_retry, copy.asked) == (
        *(record.epoch, record.nonce, record.created_ms, record.due_ms, record.expires_ms, record.max_retry),
        0,
    ):
        return copy
    return replace(
        copy,
        epoch=record.epoch,
        nonce=record.nonce,
        created_ms=record.created_ms,
        due_ms=record.due_ms,
        expires_ms=record.expires_ms,
        max_retry=record.max_retry,
        asked=0,
    )


def left_at_most(copy: Copy, record: Record) -> int:
    """Returns an upper bound, in ms: how long a copy that left the wheel still has to wait. It is the time by which a
    move or an extended lease has put off the copy's due moment, plus five seconds (`EARLY_AT_MOST_MS`). The bound is
    needed if the clock of Redis was set back: by that clock, the wait would seem longer than it is."""
    later_ms = max(record.due_ms, record.lease_until_ms) - copy.due_ms
    return max(0, later_ms) + EARLY_AT_MOST_MS


def later(copy: Copy, now_ms: float, kind: CopyKind) -> Publication:
    """Returns the publication of a copy into the wheel, where it stays until it is due. `kind`: not `PLAIN`.

    A copy that is due now also takes this way. Such a copy reaches the checkpoint at once. The checkpoint releases it
    only once the record names the copy.
    """
    return Publication(copy=copy, route=Route.WHEEL, left_ms=max(0.0, copy.due_ms - now_ms), kind=kind)


def in_its_own_life(copy: Copy) -> Publication:
    """Returns the publication of a copy whose id another message has by now, because Redis had lost the copy's record.
    The copy gets a new id (`own_life_id`). The header `x-delay-message-id` has the old id, unless the copy has this
    header already. The copy reaches the checkpoint at once."""
    envelope = copy.envelope
    named = replace(envelope, headers={CLIENTS_ID: copy.id, **envelope.headers})
    renamed = replace(copy, id=own_life_id(copy.id, copy.created_ms), envelope=named)
    return Publication(copy=renamed, route=Route.WHEEL, kind=CopyKind.HOLD)


def dead(copy: Copy, reason: str) -> Publication:
    """Returns the publication of a dead letter. `reason`: why the message is one."""
    return Publication(copy=copy, route=Route.DEAD, reason=reason)
