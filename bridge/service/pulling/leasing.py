"""Leases deliveries from a ready queue. There are two ways:

    publish the lease copy ──> name it in the record ──> acknowledge the delivery
    name the lease copy in the record ──> keep the delivery unacknowledged (`unacked_leases.py`)

The lease copy comes due when the lease ends. So a lease lives in RabbitMQ and Redis: any process may settle it, and it
ends even if no process runs. On the second way, a message that is settled soon needs no lease copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, assert_never

from bridge.broker.copies.copies import from_properties
from bridge.broker.publications import Publication, Route, parked_ms
from bridge.broker.ready.taken import Taken
from bridge.metrics.messages import DELIVERED, EXPIRED, GHOSTS
from bridge.model.clock_step import STEP_MS
from bridge.model.errors import Unavailable
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import Copy, CopyKind, Envelope, Message
from bridge.model.values import Effective, Leased
from bridge.service.context import Context
from bridge.service.protocol import receipts
from bridge.service.protocol.deliveries import Acked, Held, Put, Settlement, settle
from bridge.service.protocol.steps import Publish, Result, Step, Succeed, Update, named
from bridge.service.protocol.succession import Succession
from bridge.service.protocol.successors import completed, in_its_own_life, lease_copy, left_at_most
from bridge.service.pulling.lease_copies import LATE_MS, missing_step, publication
from bridge.service.pulling.unacked_leases import UnackedLeases
from bridge.store.messages.records import Records
from bridge.store.messages.verdicts import LeaseVerdict
from bridge.tracing.context import OF_RELEASE

AHEAD_PARKED_MS: Final = 1_000
"""How long a copy that is newer than its record stays in the wheel before the bridge asks Redis about it again."""

LeaseMs = int | Callable[[Envelope], int | None] | None
"""How long a lease lasts, in ms; a function reads this from the message. None, also from the function: the topic's
value."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """The terms of the leases of one pull. `counted`: each lease uses up one of the deliveries that its message may
    have. `by`: the id of the token that pulls; `-`: there is none; empty: no timelines are kept."""

    lease_ms: LeaseMs
    counted: bool
    by: str

    def ms_for(self, envelope: Envelope) -> int | None:
        return self.lease_ms(envelope) if callable(self.lease_ms) else self.lease_ms


@fast_dataclass(frozen=True, slots=True)
class _Lease:
    """The work that leases one delivery. If Redis does not lease the delivery, `after` decides what follows. `copy`:
    the copy that was delivered. `unacked`: keeps the delivery unacknowledged."""

    records: Records
    delivery: Taken
    copy: Copy
    lease_copy: Copy
    lease_ms: int
    unacked: bool
    step: Step[LeaseVerdict]

    def after(self, result: Result[LeaseVerdict]) -> Settlement[LeaseVerdict] | Put[LeaseVerdict]:
        """Decides what follows from the answer of Redis. A copy that was taken before it is due, or before its record
        names it, goes into the wheel. A copy whose id another message has by now also goes into the wheel. If the
        message is already leased, its lease copy goes into the wheel in place of this copy. If a server is away, the
        copy goes back into its ready queue."""
        if isinstance(result, Unavailable):
            return Put(give_back(self.delivery, self.copy), result)
        outcome = named(result)
        match outcome.verdict:
            case LeaseVerdict.LEASED:
                return Held(outcome) if self.unacked else Acked(outcome)
            case LeaseVerdict.EXPIRED | LeaseVerdict.GHOST:
                return Acked(outcome)
            case LeaseVerdict.DELIVERED:
                return Put(missing_step(self.records, self.copy, outcome), outcome)
            case LeaseVerdict.ANOTHER:
                return Put(Publish(in_its_own_life(self.copy)), outcome)
            case LeaseVerdict.HOLD:
                copy, kind = self.copy, CopyKind.HOLD
                left_ms = min(outcome.extra, left_at_most(self.copy, outcome.found))
            case LeaseVerdict.AHEAD:
                copy, kind = replace(self.copy, asked=self.copy.asked + 1), CopyKind.CHECKED
                left_ms = AHEAD_PARKED_MS
            case _:
                assert_never(outcome.verdict)
        parked = Publication(copy=copy, route=Route.WHEEL, left_ms=left_ms, kind=kind)
        return Put(Publish(parked), outcome)


def give_back(delivery: Taken, copy: Copy) -> Publish:
    """Returns the step that publishes a delivered copy at the end of the ready queue. A requeue would count as a
    delivery."""
    released = (delivery.properties.headers or {}).get(OF_RELEASE)
    if released is not None:
        # Keeps the trace context of the release, which this publish does not repeat.
        headers = {**copy.envelope.headers, OF_RELEASE: released}
        copy = replace(copy, envelope=replace(copy.envelope, headers=headers))
    return Publish(Publication(copy=copy, route=Route.READY, live_for_ms=delivery.live_for_ms))


class Leasing:
    def __init__(self, context: Context, unacked: UnackedLeases) -> None:
        self.unacked = unacked
        self._store = context.store
        self._records = context.records
        self._broker = context.broker
        self._succession = Succession.of_calls(context)
        self._returns = Succession.of_copies(context)

    async def lease(
        self, topic: str, taken: Sequence[tuple[Taken, LeaseTerms]], policy: Effective
    ) -> list[Leased | Unavailable | None]:
        """Leases deliveries of one topic in one group, each on its terms. Drops ghosts and expired copies, puts copies
        that are not due yet into the wheel, and gives back deliveries if a server is away.

        Returns for each delivery its lease; None if it can't be leased, as for a ghost; or the error because of which
        the delivery was given back.
        """
        now_ms = int(self._store.clock.now_ms())
        room = self.unacked.room(taken[0][0].queue)
        works: list[_Lease] = []
        for delivery, terms in taken:
            copy = completed(self._copy(topic, delivery, now_ms), policy)
            lease_ms = terms.ms_for(copy.envelope) or policy.lease_ms
            unacked = room > 0 and self.unacked.fits(copy, lease_ms)
            room -= unacked
            works.append(self._work(delivery, copy, lease_ms, now_ms, terms, unacked=unacked))
        settled = await settle(self._succession, [work.delivery for work in works], works)
        leased = [self._leased(work, settlement) for work, settlement in zip(works, settled, strict=True)]
        if delivered := sum(isinstance(one, Leased) for one in leased):
            DELIVERED.add(topic, delivered)
        return leased

    async def give_back(self, topic: str, taken: Sequence[Taken]) -> None:
        """Publishes deliveries of one topic into its ready queue again, so that other pulls can take them."""
        now_ms = int(self._store.clock.now_ms())
        puts = [Put[StrEnum](give_back(delivery, self._copy(topic, delivery, now_ms))) for delivery in taken]
        await settle(self._returns, taken, puts)

    def _work(
        self, delivery: Taken, copy: Copy, lease_ms: int, now_ms: int, terms: LeaseTerms, *, unacked: bool
    ) -> _Lease:
        """Returns the work that leases a delivery. `unacked`: keeps the delivery unacknowledged, and does not publish
        the lease copy now."""
        successor = lease_copy(copy, now_ms + lease_ms, counted=terms.counted)
        arrives_in_ms = parked_ms(lease_ms, exact=False) + unacked * LATE_MS
        name = self._records.lease(
            copy,
            next_nonce=successor.nonce,
            lease_ms=lease_ms,
            arrives_in_ms=arrives_in_ms,
            counted=terms.counted,
            unacked=unacked,
            waited=self._waited(delivery, copy, now_ms),
            by=terms.by,
        )
        step: Step[LeaseVerdict]
        if unacked:
            step = Update(name)
        else:
            announce = self._records.announce(successor, arrives_ms=now_ms + arrives_in_ms, now_ms=now_ms)
            step = Succeed(publication(successor, lease_ms), name, announce)
        return _Lease(self._records, delivery, copy, successor, lease_ms, unacked, step)

    def _waited(self, delivery: Taken, copy: Copy, now_ms: int) -> bool:
        """Whether the copy came straight out of the wheel after its whole delay, and yet is not due by the clock. Then
        the clock is wrong."""
        return copy.due_ms - now_ms > STEP_MS and self._broker.has_waited(delivery.message, copy.id)

    def _leased(self, work: _Lease, settlement: Settlement[LeaseVerdict]) -> Leased | Unavailable | None:
        """Returns the result of a lease. Takes over the delivery if it stays unacknowledged."""
        if isinstance(settlement, Held):
            self.unacked.add(work.lease_copy, work.delivery, work.lease_ms)
        if isinstance(settlement.result, Unavailable):
            return settlement.result
        outcome = named(settlement.result)
        match outcome.verdict:
            case LeaseVerdict.LEASED:
                record = outcome.found
                return Leased(
                    message=Message(record=record, envelope=work.copy.envelope),
                    receipt=receipts.make(receipts.Receipt(record.id, record.epoch, record.nonce)),
                )
            case LeaseVerdict.GHOST:
                GHOSTS.add(outcome.found.topic)
            case LeaseVerdict.EXPIRED:
                EXPIRED.add(outcome.found.topic)
            case LeaseVerdict.HOLD | LeaseVerdict.DELIVERED | LeaseVerdict.AHEAD | LeaseVerdict.ANOTHER:
                pass  # another copy has taken its place
            case _:
                assert_never(outcome.verdict)
        return None

    def _copy(self, topic: str, taken: Taken, now_ms: int) -> Copy:
        return from_properties(topic, taken.properties, taken.message.body, now_ms=now_ms)
