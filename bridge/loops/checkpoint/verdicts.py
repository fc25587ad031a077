"""What follows from each verdict of the store: what to publish, what to name then. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bridge.broker.publications import Publication, Route
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import Copy, Record, new_nonce
from bridge.model.values import Policy
from bridge.service.pulling import AHEAD_PARKED_MS, HOLD_KIND
from bridge.service.successors import RETRY_KIND, dead, later
from bridge.store.calls import Call
from bridge.store.records import Outcome, Records

ADOPT_AFTER_ASKED = 60
"""A copy that is newer than its record is asked about every second; after so many times it is believed. Either its
record's writes were lost with Redis, or the call that published it died and was answered by nobody."""

HELD_AT_MOST_MS = 200
"""What is due sooner is held in memory; what is due later goes back into the wheel."""


@fast_dataclass(frozen=True, slots=True)
class Step:
    """What is to be done with a copy, in this order: publish, then name (ask the store), then acknowledge.

    `hold_ms` instead: keep the copy and ask again after so long. `counts`: the metric this step counts for.
    """

    publication: Publication | None = None
    name: Callable[[Records], Call] | None = None
    hold_ms: float | None = None
    counts: str | None = None


def after_fire(copy: Copy, outcome: Outcome, stranded_ms: int) -> Step:
    """A copy out of the wheel."""
    match outcome.verdict:
        case "release" | "made":
            record = outcome.found
            publication = Publication(copy=as_recorded(copy, record), route=Route.READY, live_for_ms=int(outcome.extra))
            return Step(publication=publication, counts="released")
        case "hold" if outcome.extra <= HELD_AT_MOST_MS and not stranded_ms:
            return Step(hold_ms=outcome.extra)
        case "hold":
            held = replace(as_recorded(copy, outcome.found), due_ms=outcome.now_ms + int(outcome.extra))
            return Step(publication=Publication(copy=held, route=Route.WHEEL, left_ms=outcome.extra, kind=HOLD_KIND))
        case "ahead":
            return _ask_later(copy)
        case "bury":
            return _bury(copy, outcome.found, copy.attempt - 1, "retries used up")
        case "expired":
            return Step(counts="expired")
        case _:
            return Step(counts="ghost")


def after_return(copy: Copy, outcome: Outcome, reason: str, policy: Policy, now_ms: int) -> Step:
    """A copy back from its ready queue: a delivery that failed."""
    match outcome.verdict:
        case "retry":
            record = outcome.found
            nonce = new_nonce()
            backoff_ms = policy.backoff.delay_ms(copy.attempt) if policy.backoff is not None else 0
            due_ms = now_ms + backoff_ms
            retried = replace(
                as_recorded(copy, record), epoch=record.epoch + 1, nonce=nonce, attempt=copy.attempt + 1, due_ms=due_ms
            )
            return Step(
                publication=later(retried, now_ms, RETRY_KIND),
                name=lambda records: records.retry(
                    record, next_nonce=nonce, due_ms=due_ms, attempts=copy.attempt, reason=reason
                ),
                counts="retried",
            )
        case "bury":
            return _bury(copy, outcome.found, copy.attempt, reason)
        case "ahead":
            return _ask_later(copy)
        case "expired":
            return Step(counts="expired")
        case _:
            return Step(counts="ghost")


def as_recorded(copy: Copy, record: Record) -> Copy:
    """The copy as its record now knows it."""
    if (copy.epoch, copy.nonce, copy.due_ms, copy.expires_ms, copy.max_retry, copy.asked) == (
        *(record.epoch, record.nonce, record.due_ms, record.expires_ms, record.max_retry),
        0,
    ):
        return copy
    return replace(
        copy,
        epoch=record.epoch,
        nonce=record.nonce,
        due_ms=record.due_ms,
        expires_ms=record.expires_ms,
        max_retry=record.max_retry,
        asked=0,
    )


def _ask_later(copy: Copy) -> Step:
    asked = replace(copy, asked=copy.asked + 1)
    # The first time, most often the record names it within a moment.
    left_ms = AHEAD_PARKED_MS if copy.asked else 0
    return Step(publication=Publication(copy=asked, route=Route.WHEEL, left_ms=left_ms, exact=False, kind=HOLD_KIND))


def _bury(copy: Copy, record: Record, attempts: int, reason: str) -> Step:
    nonce = new_nonce()
    buried = replace(as_recorded(copy, record), epoch=record.epoch + 1, nonce=nonce)
    return Step(
        publication=dead(buried, reason),
        name=lambda records: records.bury(record, next_nonce=nonce, attempts=attempts, reason=reason),
        counts="dead",
    )
