"""Builds the lease copies of leased messages, and the steps that publish them. Pure.

A lease copy comes due when its lease ends.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Final

from bridge.broker.publications import Publication, Route, parked_ms
from bridge.model.message import Copy, CopyKind, Record
from bridge.service.protocol.succession import Step
from bridge.store.messages.outcomes import Outcome
from bridge.store.messages.records import Records
from bridge.store.messages.verdicts import LeaseCopyVerdict

LATE_MS: Final = 100
"""How much later than planned a lease copy may come that is published late: the wheel counts in tenths of a second."""

MISSING_AT_MOST_MS: Final = 60_000
"""How long a lease copy that nobody has published waits at first. While the clock of Redis is set back, what is left of
the lease seems longer."""


def publication(copy: Copy, left_ms: float) -> Publication:
    """The publication of a lease copy. `left_ms`: until the lease ends."""
    return Publication(copy=copy, route=Route.WHEEL, left_ms=left_ms, exact=False, kind=CopyKind.LEASE, shares=True)


def named_by(record: Record, delivered: Copy, due_ms: int) -> Copy:
    """The lease copy that a record names, from the delivered copy."""
    return replace(
        delivered, epoch=record.epoch, nonce=record.nonce, attempt=record.attempts + 1, due_ms=due_ms, asked=0
    )


def late_step(records: Records, copy: Copy, left_ms: float, now_ms: float) -> Step[LeaseCopyVerdict]:
    """The step that publishes the lease copy of an unacknowledged delivery. Its record names it already."""
    left_ms = max(0.0, left_ms)
    arrives_ms = int(now_ms) + parked_ms(left_ms, exact=False)
    return Step(publication=publication(copy, left_ms), name=records.lease_copy(copy, arrives_ms=arrives_ms))


def missing_step(records: Records, delivered: Copy, outcome: Outcome[StrEnum]) -> Step[LeaseCopyVerdict]:
    """The step for the delivered copy of a lease whose process no longer has it: publishes the lease copy. If the lease
    lasts longer, the checkpoint holds that copy."""
    now_ms, left_ms = outcome.now_ms, min(outcome.extra, MISSING_AT_MOST_MS)
    copy = named_by(outcome.found, delivered, now_ms + left_ms)
    arrives_ms = now_ms + parked_ms(left_ms, exact=False)
    step = late_step(records, copy, left_ms, now_ms)
    return replace(step, announce=records.announce(copy, arrives_ms=arrives_ms, now_ms=now_ms))
