"""Decides which sends need not claim their ids, and makes the records of these sends. Pure."""

from __future__ import annotations

from math import ceil

from bridge.model.message import Record, State
from bridge.store.messages.records import Claim


def unclaimed(topic: str, claim: Claim, latest_ms: float | None, *, least_ms: int) -> Record | None:
    """Returns the record of a send that needs no claim; the send enters it in Redis after its publish. None: the send
    has to claim its id.

    `latest_ms`: the result of `StoreClock.latest_ms`. This estimate is never behind Redis, so the message is not due
    before its delay has passed. `least_ms`: the shortest delay without a claim.
    """
    if not claim.fresh or latest_ms is None:
        return None
    created_ms = ceil(latest_ms)
    due_ms = claim.when_ms if claim.mode == "at" else created_ms + claim.when_ms
    if due_ms - created_ms < least_ms:
        return None
    return Record(
        topic=topic,
        id=claim.id,
        state=State.UNCONFIRMED,
        epoch=1,
        nonce=claim.nonce,
        created_ms=created_ms,
        due_ms=due_ms,
        expires_ms=due_ms + claim.ttl_ms if claim.ttl_ms >= 0 else 0,
        attempts=0,
        max_retry=claim.max_retry,
        arrives_ms=due_ms,
        last_ms=due_ms,
        lease_until_ms=0,
        ended_ms=0,
        forget_ms=0,
        reason="",
        labels=claim.labels,
    )
