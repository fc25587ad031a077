"""Leases deliveries from a ready queue. There are two ways:

    publish the lease copy ──> name it in the record ──> acknowledge the delivery
    name the lease copy in the record ──> keep the delivery unacknowledged (`unacked_leases.py`)

The lease copy comes due when the lease ends. So a lease lives in RabbitMQ and Redis: any process may settle it, and it
ends even if no process runs. On the second way, a message that is settled soon needs no lease copy.
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
"""How long a copy that is newer than its record stays in the wheel before the bridge asks Redis about it again."""

_STEP_MS: Final = 1_000  # if a clock is wrong by less, the bridge simply waits

Begun = LeaseVerdict | LeaseCopyVerdict
"""The verdicts of calls that lease a delivery, or that name the lease copy of a message that is already leased."""

LeaseMs = int | Callable[[Envelope], int | None] | None
"""How long a lease lasts, in ms; a function reads this from the message. None, also from the function: the topic's
value."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """The terms of the leases of one pull. `counted`: each lease uses up one of the deliveries that its message may
    have. `by`: who pulls, as `Records.by` returns it."""

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
        """Returns the step that publishes the copy at the end of the ready queue. A requeue would count as a
        delivery."""
        copy, released = self.copy, (self.delivery.properties.headers or {}).get(OF_RELEASE)
        if released is not None:
            # Keeps the trace context of the release, which this publish does not repeat.
            headers = {**copy.envelope.headers, OF_RELEASE: released}
            copy = replace(copy, envelope=replace(copy.envelope, headers=headers))
        returned = Publication(copy=copy, route=Route.READY, live_for_ms=self.delivery.live_for_ms)
        return Step(publication=returned, delivery=self.delivery)

    def park(self, records: Records, outcome: Outcome[Begun]) -> Step[Begun] | None:
        """Returns the step for a copy that Redis did not lease; None if the delivery can be acknowledged.

        A copy that was taken before it is due, or before its record names it, goes into the wheel. So does a copy whose
        id another message has by now. If the message is already leased, its lease copy goes into the wheel in place of
        this copy.
        """
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
        # Not by `copy_publisher`: that would bring back a topic that was removed meanwhile.
        self._returns = Succession(context.store, context.broker.releases)

    async def lease(
        self, topic: str, taken: Sequence[tuple[Taken, LeaseTerms]], policy: Effective
    ) -> list[Leased | Unavailable | None]:
        """Leases deliveries of one topic in one group, each on its terms. Drops ghosts and expired copies, puts copies
        that are not due yet into the wheel, and gives back deliveries if a server is away.

        Returns for each delivery its lease; None if it can't be leased; or the error for which it was given back.
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
        """Publishes deliveries of one topic into its ready queue again, so that other pulls can take them."""
        now_ms = int(self._store.clock.now_ms())
        candidates = [_Candidate(delivery, self._copy(topic, delivery, now_ms)) for delivery in taken]
        await self._returns.perform([candidate.give_back() for candidate in candidates])

    def _step(
        self, candidate: _Candidate, lease_ms: int, now_ms: int, terms: LeaseTerms, *, unacked: bool
    ) -> Step[Begun]:
        """Returns the step that leases a delivery. `unacked`: keeps the delivery unacknowledged, and does not publish
        the lease copy now."""
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
        """Whether a copy seems not to be due, but came straight out of the wheel after its whole delay: then the clock
        is wrong."""
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
