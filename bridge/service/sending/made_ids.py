"""Decides which sends need not claim their ids, and makes the records of these sends. A claim is a record that Redis
writes before the publish, so that no other send gets the id. Pure."""

from __future__ import annotations

from math import ceil

from bridge.model.message import Record
from bridge.model.values import Draft
from bridge.store.messages.records import Claim


def unclaimed(draft: Draft, claim: Claim, latest_ms: float | None, *, least_ms: int) -> Record | None:
    """Returns the record of a send that needs no claim; the send enters it in Redis after its publish. None: the send
    has to claim its id.

    `claim`: the id and the other values of the record. `latest_ms`: an estimate of Redis' clock that is never behind
    that clock, so the message is not due before its delay has passed; None: unknown. `least_ms`: a shorter delay needs
    a claim.
    """
    if draft.id or latest_ms is None:
        return None
    record = claim.record(draft, ceil(latest_ms))
    return None if record.due_ms - record.created_ms < least_ms else record
