"""Decides what the checkpoint does with a copy after the verdict of Redis. Pure."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from typing import assert_never

from bridge.broker.copies.classify import Due
from bridge.broker.copies.open_bundle import EARLY_AT_MOST_MS
from bridge.broker.publications import Publication, Route
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import Copy, CopyKind, Record, State, new_nonce
from bridge.model.values import AckVerdict, Effective
from bridge.service.protocol.steps import Publish, Succeed
from bridge.service.protocol.successors import as_recorded, dead, in_its_own_life, later, left_at_most
from bridge.service.pulling.lease_copies import missing_step
from bridge.service.pulling.leasing import AHEAD_PARKED_MS
from bridge.store.messages.outcomes import Outcome
from bridge.store.messages.records import NamedBefore, Records
from bridge.store.messages.verdicts import BuryVerdict, FireVerdict, LeaseCopyVerdict, RetryVerdict, ReturnedVerdict

ADOPT_AFTER_ASKED = 60
"""How many times the checkpoint asks about a copy that is newer than its record, before it believes the copy. It asks
about once a second. By then either Redis has lost the record's last writes, or the process that published the copy died
before it named the copy. A message that waits for a later moment is never released for such a copy."""

_FIRST_PARKED_MS = (0, 100)
"""The first pauses, in ms, before the checkpoint asks again about a copy that is newer than its record. They are short:
most often the process that published the copy names it at once, or a batch of copies within a tenth of a second."""

HELD_AT_MOST_MS = 200
"""In ms. If a copy is due within this time, the checkpoint keeps the copy in memory. Otherwise it puts the copy back
into the wheel."""


Asked = Outcome[FireVerdict] | Outcome[ReturnedVerdict]
"""Redis' answer to the checkpoint's question about a copy."""

Named = RetryVerdict | BuryVerdict | AckVerdict | LeaseCopyVerdict
"""The verdicts of the script that a step runs after its publish. The script names the successor, or ends a message that
its target has taken."""


class CopyResult(Enum):
    """The results of copies at the checkpoint that the metrics count."""

    RELEASED = auto()
    RETRIED = auto()
    DEAD = auto()
    EXPIRED = auto()
    GHOST = auto()


@fast_dataclass(frozen=True, slots=True)
class Hold:
    """The checkpoint keeps the copy in memory, and asks Redis again after `for_ms` ms."""

    for_ms: float


@fast_dataclass(frozen=True, slots=True)
class Drop:
    """The copy needs no successor: its message has ended, or another copy is the live one. `counts`: how the metrics
    count the copy."""

    counts: CopyResult


@fast_dataclass(frozen=True, slots=True)
class Perform:
    """The checkpoint carries out `step` for the copy. `not_before_ms`: the earliest moment at which the step may begin,
    in Unix ms of Redis' clock; 0: now. `counts`: how the metrics count the copy; None: not at all."""

    step: Publish | Succeed[Named]
    counts: CopyResult | None = None
    not_before_ms: int = 0


Decision = Hold | Drop | Perform
"""What the checkpoint does with one copy."""


def named(item: Due) -> NamedBefore:
    """Returns what the message's record has certainly named before this copy reached the checkpoint. Decides by the
    copy's kind, its epoch, and how often Redis was asked about it.

    `MESSAGE`: at least one copy of this message, perhaps this one. `FORMER`: at least one copy of this message or of
    the message that it replaced. `NOTHING`: nothing is certain.
    """
    match item.kind:
        case CopyKind.PLAIN | CopyKind.CHECKED | CopyKind.RETRY:
            return NamedBefore.MESSAGE
        case CopyKind.MOVE:
            return NamedBefore.FORMER
        case CopyKind.LEASE:
            # The lease copy of an AMQP client's own copy has epoch 2, and another moment of creation after each
            # delivery of that copy.
            return NamedBefore.MESSAGE if item.copy.epoch > 2 else NamedBefore.NOTHING
        case CopyKind.HOLD:
            return NamedBefore.NOTHING if item.copy.asked else NamedBefore.MESSAGE
        case _:
            assert_never(item.kind)


def after_fire(records: Records, item: Due, outcome: Outcome[FireVerdict]) -> Decision:
    """Decides what the checkpoint does with a copy that left the wheel. `outcome`: Redis' answer to the script `fire`,
    which says whether to release the copy."""
    copy, stranded_ms = item.copy, item.stranded_ms
    match outcome.verdict:
        case FireVerdict.RELEASE | FireVerdict.MADE:
            return _released(records, as_recorded(copy, outcome.found), outcome)
        case FireVerdict.HOLD | FireVerdict.BESIDE if outcome.extra <= HELD_AT_MOST_MS and not stranded_ms:
            return Hold(outcome.extra)
        case FireVerdict.HOLD if outcome.found.state is State.LEASED:
            # A lease copy stays one, so `fire` knows that it waits its whole delay. `fire` limits the delay.
            return _held(as_recorded(copy, outcome.found), outcome, outcome.extra, CopyKind.LEASE)
        case FireVerdict.HOLD:
            left_at_most_ms = left_at_most(copy, outcome.found) + stranded_ms
            return _held(as_recorded(copy, outcome.found), outcome, left_at_most_ms, CopyKind.HOLD)
        case FireVerdict.BESIDE:
            return _held(copy, outcome, EARLY_AT_MOST_MS + stranded_ms, CopyKind.HOLD)
        case FireVerdict.AHEAD:
            return _ask_later(copy, outcome.extra, _asked_kind(item))
        case FireVerdict.ANOTHER:
            return Perform(Publish(in_its_own_life(copy)))
        case FireVerdict.BURY:
            return _bury(records, copy, outcome.found, copy.attempt - 1, "retries used up")
        case FireVerdict.EXPIRED:
            return Drop(CopyResult.EXPIRED)
        case FireVerdict.GHOST:
            return Drop(CopyResult.GHOST)
        case _:
            assert_never(outcome.verdict)


def after_return(
    records: Records, copy: Copy, outcome: Outcome[ReturnedVerdict], reason: str, policy: Effective
) -> Decision:
    """Decides what the checkpoint does with a copy that its ready queue returned: rejected, over the delivery limit, or
    expired. `reason`: which of the three, in RabbitMQ's words. `outcome`: Redis' answer to the script `returned`."""
    match outcome.verdict:
        case ReturnedVerdict.RETRY:
            record = outcome.found
            nonce = new_nonce()
            due_ms = outcome.now_ms + policy.retry_after_ms(copy.id, copy.attempt)
            retried = replace(
                as_recorded(copy, record), epoch=record.epoch + 1, nonce=nonce, attempt=copy.attempt + 1, due_ms=due_ms
            )
            step = Succeed(
                announce=records.announce(retried, arrives_ms=due_ms, now_ms=outcome.now_ms),
                publication=later(retried, outcome.now_ms, CopyKind.RETRY),
                name=records.retry(record, next_nonce=nonce, due_ms=due_ms, attempts=copy.attempt, reason=reason),
            )
            return Perform(step, CopyResult.RETRIED)
        case ReturnedVerdict.BURY:
            return _bury(records, copy, outcome.found, copy.attempt, reason)
        case ReturnedVerdict.ANOTHER:
            # The delivery that failed counts.
            return Perform(Publish(in_its_own_life(replace(copy, attempt=copy.attempt + 1))))
        case ReturnedVerdict.DELIVERED:
            return Perform(missing_step(records, copy, outcome))
        case ReturnedVerdict.AHEAD:
            return _ask_later(copy, 0, CopyKind.CHECKED)
        case ReturnedVerdict.EXPIRED:
            return Drop(CopyResult.EXPIRED)
        case ReturnedVerdict.GHOST:
            return Drop(CopyResult.GHOST)
        case _:
            assert_never(outcome.verdict)


def count_of(decision: Drop | Perform, verdict: Named | None) -> CopyResult | None:
    """Returns what to count once a decision is carried out; None: no metric.

    `verdict`: Redis' answer to the script `name` of the step; None: the step has no such script. If the record does not
    name the successor, the successor is a ghost, and so is the copy that came.
    """
    match verdict:
        case None | RetryVerdict.RETRIED | BuryVerdict.BURIED | LeaseCopyVerdict.PUBLISHED:
            return decision.counts
        case AckVerdict.ACKED | AckVerdict.STALE | AckVerdict.NOT_LEASED | AckVerdict.UNKNOWN:
            return decision.counts  # its target has the message
        case RetryVerdict.GHOST | BuryVerdict.GHOST | LeaseCopyVerdict.GHOST | LeaseCopyVerdict.MISSING:
            return CopyResult.GHOST
        case _:
            assert_never(verdict)


def undelivered(records: Records, copy: Copy, outcome: Asked, reason: str) -> Decision:
    """Decides what the checkpoint does with a released copy that its target did not take. `reason`: the text of the
    publish's error."""
    return _bury(records, copy, outcome.found, copy.attempt, reason)


def _released(records: Records, copy: Copy, outcome: Outcome[FireVerdict]) -> Decision:
    """Returns the decision to release a copy at its message's due moment. A message with a target ends when the target
    has taken it, because no bridge sees the message afterwards."""
    live_for_ms = outcome.extra
    if copy.envelope.target is None:
        step: Publish | Succeed[Named] = Publish(Publication(copy=copy, route=Route.READY, live_for_ms=live_for_ms))
    else:
        publication = Publication(copy=copy, route=Route.TARGET, live_for_ms=live_for_ms)
        # Of this copy only: a send may replace the message before its target has taken it.
        named = outcome.found
        ack = records.ack(copy.topic, copy.id, epoch=named.epoch, nonce=named.nonce, copy_gone=True)
        step = Succeed(publication, ack)
    return Perform(step, CopyResult.RELEASED, not_before_ms=outcome.found.due_ms)


def _held(copy: Copy, outcome: Outcome[FireVerdict], left_at_most_ms: int, kind: CopyKind) -> Decision:
    """Returns the decision to put a copy back into the wheel, because the copy came too early. `left_at_most_ms`: the
    longest wait in the wheel, in milliseconds."""
    held = replace(copy, due_ms=outcome.now_ms + outcome.extra)
    left_ms = min(outcome.extra, left_at_most_ms)
    return Perform(Publish(Publication(copy=held, route=Route.WHEEL, left_ms=left_ms, kind=kind, shares=True)))


def _asked_kind(item: Due) -> CopyKind:
    """Returns the kind with which a copy goes back into the wheel, so that the checkpoint asks about it again: never
    `PLAIN`. `named` gives equal results for this kind and for `item`."""
    if item.kind is CopyKind.RETRY:
        return item.kind
    before = named(item)
    match before:
        case NamedBefore.MESSAGE:
            return CopyKind.CHECKED
        case NamedBefore.FORMER:
            return CopyKind.MOVE
        case NamedBefore.NOTHING:
            return CopyKind.HOLD
        case _:
            assert_never(before)


def _ask_later(copy: Copy, after_ms: int, kind: CopyKind) -> Decision:
    """Returns the decision to put a copy back into the wheel, because the copy is newer than its record. The checkpoint
    asks about it again later. `after_ms`: the ms until the copy that the record names is due, added to the usual pause;
    0: only the pause."""
    asked = replace(copy, asked=copy.asked + 1)
    pause_ms = _FIRST_PARKED_MS[copy.asked] if copy.asked < len(_FIRST_PARKED_MS) else AHEAD_PARKED_MS
    left_ms = after_ms + pause_ms
    publication = Publication(copy=asked, route=Route.WHEEL, left_ms=left_ms, exact=False, kind=kind)
    return Perform(Publish(publication))


def _bury(records: Records, copy: Copy, record: Record, attempts: int, reason: str) -> Decision:
    nonce = new_nonce()
    buried = replace(as_recorded(copy, record), epoch=record.epoch + 1, nonce=nonce)
    name = records.bury(record, next_nonce=nonce, attempts=attempts, reason=reason)
    return Perform(Succeed(dead(buried, reason), name), CopyResult.DEAD)
