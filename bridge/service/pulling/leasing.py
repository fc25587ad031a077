"""Leases deliveries from a ready queue. There are two ways:

    publish the lease copy ──> name it in the record ──> acknowledge the delivery
    name the lease copy in the record ──> keep the delivery unacknowledged (`unacked_leases.py`)

The lease copy comes due when the lease ends. So a lease lives in RabbitMQ and Redis: any process may settle it, and no
process has to be there for it to end. Most messages are settled soon, and then nobody has to publish it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from bridge.broker.copies.copies import from_properties
from bridge.broker.publications import Publication, Route, parked_ms
from bridge.broker.ready.taken import Taken
from bridge.metrics.messages import DELIVERED, EXPIRED, GHOSTS
from bridge.model.errors import Unavailable
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import Copy, CopyKind, Envelope, Message
from bridge.model.values import Effective, Leased
from bridge.service.context import Context
from bridge.service.protocol import receipts
from bridge.service.protocol.succession import Result, Step, Succession
from bridge.service.protocol.successors import completed, in_its_own_life, lease_copy, left_at_most
from bridge.service.pulling.lease_copies import LATE_MS, missing_step, publication
from bridge.service.pulling.unacked_leases import UnackedLeases
from bridge.store.messages.outcomes import Outcome
from bridge.store.messages.records import Records
from bridge.store.messages.verdicts import LeaseCopyVerdict, LeaseVerdict
from bridge.tracing.context import OF_RELEASE

AHEAD_PARKED_MS: Final = 1_000
"""A copy that is newer than its record goes into the wheel for so long before it is asked about again."""

_STEP_MS: Final = 1_000  # a clock that is wrong by less is waited for

Begun = LeaseVerdict | LeaseCopyVerdict
"""What the calls about a delivery answer: those that lease it, and those about a lease that it has already."""

LeaseMs = int | Callable[[Envelope], int | None] | None
"""How long a lease lasts. A function reads it from the message. None, also from the function: the topic's own."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """The terms of the leases of one pull. `counted`: each uses one of the deliveries that a message is allowed.
    `by`: who pulls, as in `Records.by`."""

    lease_ms: LeaseMs
    counted: bool
    by: str

    def ms_for(self, envelope: Envelope) -> int | None:
        return self.lease_ms(envelope) if callable(self.lease_ms) else self.lease_ms


@fast_dataclass(frozen=True, slots=True)
class _Candidate:
    delivery: Taken
    copy: Copy

    def give_back(self) -> Step[Begun]:
        """Puts the copy behind the others, as a new publish: a requeue would count as a delivery."""
        copy, released = self.copy, (self.delivery.properties.headers or {}).get(OF_RELEASE)
        if released is not None:
            # It has been released before, and this is still the same delivery.
            headers = {**copy.envelope.headers, OF_RELEASE: released}
            copy = replace(copy, envelope=replace(copy.envelope, headers=headers))
        returned = Publication(copy=copy, route=Route.READY, live_for_ms=self.delivery.live_for_ms)
        return Step(publication=returned, delivery=self.delivery)

    def park(self, records: Records, outcome: Outcome[Begun]) -> Step[Begun] | None:
        """Puts a copy that was taken too early, before it is due or before its record names it, into the wheel. So it
        does with a copy whose id another message has by now. In place of a copy that is leased already, it puts the
        lease copy there."""
        match outcome.verdict:
            case LeaseVerdict.DELIVERED:
                return replace(missing_step(records, self.copy, outcome), delivery=self.delivery)
            case LeaseVerdict.ANOTHER:
                return Step(publication=in_its_own_life(self.copy), delivery=self.delivery)
            case LeaseVerdict.HOLD:
                copy, left_ms = self.copy, min(outcome.extra, left_at_most(self.copy, outcome.found))
            case LeaseVerdict.AHEAD:
                copy, left_ms = replace(self.copy, asked=self.copy.asked + 1), AHEAD_PARKED_MS
            case LeaseVerdict.LEASED | LeaseVerdict.EXPIRED | LeaseVerdict.GHOST:
                return None
            case LeaseCopyVerdict.PUBLISHED | LeaseCopyVerdict.GHOST | LeaseCopyVerdict.MISSING:
                return None  # the lease copy is published
            case _:
                assert_never(outcome.verdict)
        parked = Publication(copy=copy, route=Route.WHEEL, left_ms=left_ms, kind=CopyKind.HOLD)
        return Step(publication=parked, delivery=self.delivery)


class Leasing:
    def __init__(self, context: Context, unacked: UnackedLeases) -> None:
        self.unacked = unacked
        self._store = context.store
        self._records = context.records
        self._broker = context.broker
        self._succession = Succession(context.store, context.broker.copy_publisher)
        # A topic that was removed meanwhile must not come back.
        self._returns = Succession(context.store, context.broker.releases)

    async def lease(
        self, topic: str, taken: Sequence[tuple[Taken, LeaseTerms]], policy: Effective
    ) -> list[Leased | Unavailable | None]:
        """Leases deliveries of one topic, each on its terms, in one group. Drops ghosts and expired copies, parks those
        that are not due yet, and gives back those that can't be leased now.

        Returns for each delivery its lease; None, if the message can't be delivered; or why it was given back.
        """
        now_ms = int(self._store.clock.now_ms())
        room = self.unacked.room(taken[0][0].queue)
        candidates: list[_Candidate] = []
        steps: list[Step[Begun]] = []
        for delivery, terms in taken:
            copy = completed(self._copy(topic, delivery, now_ms), policy)
            candidate = _Candidate(delivery, copy)
            lease_ms = terms.ms_for(copy.envelope) or policy.lease_ms
            unacked = room > 0 and self.unacked.fits(copy, lease_ms)
            room -= unacked
            candidates.append(candidate)
            steps.append(self._step(candidate, lease_ms, now_ms, terms, unacked=unacked))
        results = await self._succession.perform(steps)
        leased = [_leased(candidate, result) for candidate, result in zip(candidates, results, strict=True)]
        if delivered := sum(isinstance(one, Leased) for one in leased):
            DELIVERED.add(topic, delivered)
        return leased

    async def give_back(self, topic: str, taken: Sequence[Taken]) -> None:
        """Gives back deliveries of one topic, for others to take."""
        now_ms = int(self._store.clock.now_ms())
        candidates = [_Candidate(delivery, self._copy(topic, delivery, now_ms)) for delivery in taken]
        await self._returns.perform([candidate.give_back() for candidate in candidates])

    def _step(
        self, candidate: _Candidate, lease_ms: int, now_ms: int, terms: LeaseTerms, *, unacked: bool
    ) -> Step[Begun]:
        """`unacked`: nobody publishes the lease copy now."""
        copy = lease_copy(candidate.copy, now_ms + lease_ms, counted=terms.counted)
        arrives_in_ms = parked_ms(lease_ms, exact=False) + unacked * LATE_MS
        name = self._records.lease(
            candidate.copy,
            next_nonce=copy.nonce,
            lease_ms=lease_ms,
            arrives_in_ms=arrives_in_ms,
            counted=terms.counted,
            unacked=unacked,
            waited=self._waited(candidate, now_ms),
            by=terms.by,
        )

        def keep(outcome: Outcome[Begun]) -> bool:
            leased = outcome.verdict is LeaseVerdict.LEASED
            if leased:
                self.unacked.add(copy, candidate.delivery, lease_ms)
            return leased

        arrives_ms = now_ms + arrives_in_ms
        return Step(
            announce=None if unacked else self._records.announce(copy, arrives_ms=arrives_ms, now_ms=now_ms),
            publication=None if unacked else publication(copy, lease_ms),
            name=name,
            delivery=candidate.delivery,
            instead=lambda _: candidate.give_back(),
            then=lambda outcome: candidate.park(self._records, outcome),
            keep=keep if unacked else None,
        )

    def _waited(self, candidate: _Candidate, now_ms: int) -> bool:
        """Whether a copy that is not due by the clock has come straight out of the wheel, after its whole delay."""
        copy = candidate.copy
        return copy.due_ms - now_ms > _STEP_MS and self._broker.has_waited(candidate.delivery.message, copy.id)

    def _copy(self, topic: str, taken: Taken, now_ms: int) -> Copy:
        return from_properties(topic, taken.properties, taken.message.body, now_ms=now_ms)


def _leased(candidate: _Candidate, result: Result[Begun]) -> Leased | Unavailable | None:
    if result is None or isinstance(result, Unavailable):
        return result
    match result.verdict:
        case LeaseVerdict.LEASED:
            record = result.found
            return Leased(
                message=Message(record=record, envelope=candidate.copy.envelope),
                receipt=receipts.make(receipts.Receipt(record.id, record.epoch, record.nonce)),
            )
        case LeaseVerdict.GHOST:
            GHOSTS.add(result.found.topic)
        case LeaseVerdict.EXPIRED:
            EXPIRED.add(result.found.topic)
        case LeaseVerdict.HOLD | LeaseVerdict.DELIVERED | LeaseVerdict.AHEAD | LeaseVerdict.ANOTHER:
            pass  # it is parked
        case LeaseCopyVerdict.PUBLISHED | LeaseCopyVerdict.GHOST | LeaseCopyVerdict.MISSING:
            pass  # another consumer has the lease
        case _:
            assert_never(result.verdict)
    return None
