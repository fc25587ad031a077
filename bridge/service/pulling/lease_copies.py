"""Builds the lease copies of leased messages, and the steps that publish them. Pure.

A lease copy comes due when its lease ends.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Final

from bridge.broker.publications import Publication, Route, parked_ms
from bridge.model.message import Copy, CopyKind, Record
from bridge.service.protocol.steps import Succeed
from bridge.store.messages.outcomes import Outcome
from bridge.store.messages.records import Records
from bridge.store.messages.verdicts import LeaseCopyVerdict

LATE_MS: Final = 100
"""How much later than planned a lease copy may come if it is published late: the wheel counts in tenths of a second."""

MISSING_AT_MOST_MS: Final = 60_000
"""How long a lease copy waits in the wheel at most if its process died before it published the copy. The bound is
needed if the clock of Redis was set back: by that clock, the rest of the lease seems longer than it is."""


def publication(copy: Copy, left_ms: float) -> Publication:
    """Returns the publication of a lease copy. `left_ms`: milliseconds until the lease ends."""
    return Publication(copy=copy, route=Route.WHEEL, left_ms=left_ms, exact=False, kind=CopyKind.LEASE, shares=True)


def named_by(record: Record, delivered: Copy, due_ms: int) -> Copy:
    """Returns the lease copy that the record names, with the content of the delivered copy. `due_ms`: when the lease
    copy is due, in Unix ms."""
    return replace(
        delivered, epoch=record.epoch, nonce=record.nonce, attempt=record.attempts + 1, due_ms=due_ms, asked=0
    )


def late_step(records: Records, copy: Copy, left_ms: float, now_ms: float) -> Succeed[LeaseCopyVerdict]:
    """Returns the step that publishes the lease copy of an unacknowledged delivery. `copy`: this lease copy, which the
    record names already. `left_ms`: milliseconds until the lease ends. `now_ms`: the time by Redis' clock, in Unix
    ms."""
    left_ms = max(0.0, left_ms)
    arrives_ms = int(now_ms) + parked_ms(left_ms, exact=False)
    return Succeed(publication=publication(copy, left_ms), name=records.lease_copy(copy, arrives_ms=arrives_ms))


def missing_step(records: Records, delivered: Copy, outcome: Outcome[StrEnum]) -> Succeed[LeaseCopyVerdict]:
    """Returns the step that publishes the missing lease copy of a leased message. `delivered`: the delivered copy,
    which comes again because the leasing process has died or has lost its channel.

    The lease copy waits in the wheel for at most `MISSING_AT_MOST_MS`. If the lease lasts longer, the checkpoint holds
    the lease copy back. `outcome`: the answer of the call that found the lease; its `extra` is the milliseconds until
    the lease ends.
    """
    now_ms, left_ms = outcome.now_ms, min(outcome.extra, MISSING_AT_MOST_MS)
    copy = named_by(outcome.found, delivered, now_ms + left_ms)
    arrives_ms = now_ms + parked_ms(left_ms, exact=False)
    step = late_step(records, copy, left_ms, now_ms)
    return replace(step, announce=records.announce(copy, arrives_ms=arrives_ms, now_ms=now_ms))
