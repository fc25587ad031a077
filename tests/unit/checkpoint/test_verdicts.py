"""Tests what the checkpoint decides after each verdict of Redis."""

from dataclasses import replace
from typing import Any

import pytest

from bridge.broker.copies.classify import Due
from bridge.broker.publications import Publication, Route
from bridge.loops.checkpoint.verdicts import CopyResult, Decision, Drop, Hold, Perform, after_fire, after_return, named
from bridge.model.message import Copy, CopyKind, Envelope, State
from bridge.model.values import Backoff, Policy
from bridge.service.protocol.steps import Publish, Succeed
from bridge.store.keys import Keys
from bridge.store.messages.outcomes import Outcome
from bridge.store.messages.records import NamedBefore, Records
from bridge.store.messages.verdicts import FireVerdict, ReturnedVerdict
from tests.effective import effective
from tests.records import record

NOW_MS = 1_769_850_000_000
COPY = Copy(
    topic="orders",
    id="o-1",
    epoch=3,
    nonce=7,
    attempt=2,
    max_retry=5,
    due_ms=NOW_MS,
    expires_ms=0,
    created_ms=NOW_MS - 9_000,
    envelope=Envelope(body=b"{}"),
    asked=2,
)
# The record differs from the headers of the copy: the message was moved, and its retries changed.
RECORD = record(
    state=State.READY,
    epoch=3,
    created_ms=NOW_MS - 9_000,
    due_ms=NOW_MS - 10,
    expires_ms=NOW_MS + 800,
    attempts=1,
    max_retry=4,
    arrives_ms=NOW_MS,
    last_ms=NOW_MS,
    forget_ms=NOW_MS + 5_000,
)
AS_RECORDED = replace(COPY, due_ms=NOW_MS - 10, expires_ms=NOW_MS + 800, max_retry=4, asked=0)
RECORDS = Records(keys=Keys("delay"), retention_ms=1, tombstone_ms=2)


def fired(verdict: str, extra: int = 0) -> Outcome[FireVerdict]:
    return Outcome(FireVerdict(verdict), NOW_MS, extra, RECORD)


def returned(verdict: str) -> Outcome[ReturnedVerdict]:
    return Outcome(ReturnedVerdict(verdict), NOW_MS, 0, RECORD)


def successor(decision: Decision) -> Succeed[Any]:
    assert isinstance(decision, Perform)
    assert isinstance(decision.step, Succeed)
    return decision.step


def due(copy: Copy, stranded_ms: int = 0, kind: CopyKind = CopyKind.HOLD) -> Due:
    return Due(tag=1, original=copy, copy=copy, stranded_ms=stranded_ms, kind=kind)


def named_by(step: Succeed[Any]) -> dict[str, object]:
    """The script that names the successor, with its arguments."""
    call = step.name
    return {"script": call.script.name, **dict(zip(call.script.args[5:], call.args[5:], strict=True))}


@pytest.mark.parametrize("verdict", ["release", "made"])
def test_a_released_copy_takes_its_values_from_the_record(verdict: str) -> None:
    assert after_fire(RECORDS, due(COPY), fired(verdict, 800)) == Perform(
        Publish(Publication(copy=AS_RECORDED, route=Route.READY, live_for_ms=800)),
        CopyResult.RELEASED,
        not_before_ms=NOW_MS - 10,
    )


@pytest.mark.parametrize("extra", [1, 200])
def test_a_copy_that_is_almost_due_is_held_in_memory(extra: int) -> None:
    assert after_fire(RECORDS, due(COPY), fired("hold", extra)) == Hold(extra)


DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("moved_ms", "extended_ms", "extra", "stranded_ms", "left_ms"),
    [
        (0, 0, 201, 0, 201),
        (0, 0, 150, 100, 150),
        (DAY_MS, 0, DAY_MS - 100, 0, DAY_MS - 100),
        (0, 9_000, 8_900, 0, 8_900),
        (0, 0, DAY_MS - 100, DAY_MS - 100, DAY_MS - 100),
        # The clock of Redis was set back by a day.
        (0, 0, DAY_MS, 0, 5_000),
        (-1_000, 0, DAY_MS, 0, 5_000),
        (60_000, 0, DAY_MS + 60_000, 0, 65_000),
        (0, 9_000, DAY_MS + 9_000, 0, 14_000),
    ],
)
def test_a_copy_that_is_due_later_or_is_stranded_goes_back_into_the_wheel(
    moved_ms: int, extended_ms: int, extra: int, stranded_ms: int, left_ms: int
) -> None:
    record = replace(RECORD, due_ms=COPY.due_ms + moved_ms, lease_until_ms=COPY.due_ms + extended_ms)
    held = replace(AS_RECORDED, due_ms=NOW_MS + extra)

    assert after_fire(RECORDS, due(COPY, stranded_ms), Outcome(FireVerdict.HOLD, NOW_MS, extra, record)) == Perform(
        Publish(Publication(copy=held, route=Route.WHEEL, left_ms=left_ms, kind=CopyKind.HOLD, shares=True))
    )


def test_a_lease_copy_that_is_held_stays_one_and_waits_for_all_that_is_left() -> None:
    leased = replace(RECORD, state=State.LEASED, lease_until_ms=NOW_MS + 60_000)
    held = replace(AS_RECORDED, due_ms=NOW_MS + 60_000)

    assert after_fire(RECORDS, due(COPY), Outcome(FireVerdict.HOLD, NOW_MS, 60_000, leased)) == Perform(
        Publish(Publication(copy=held, route=Route.WHEEL, left_ms=60_000, kind=CopyKind.LEASE, shares=True))
    )


def test_a_clients_copy_beside_another_message_goes_back_into_the_wheel_without_its_name() -> None:
    copy = replace(COPY, epoch=0, nonce=0)
    held = replace(copy, due_ms=NOW_MS + 5_000)

    assert after_fire(RECORDS, due(copy), Outcome(FireVerdict.BESIDE, NOW_MS, 5_000, RECORD)) == Perform(
        Publish(Publication(copy=held, route=Route.WHEEL, left_ms=5_000, kind=CopyKind.HOLD, shares=True))
    )


@pytest.mark.parametrize(("asked", "left_ms"), [(0, 0), (1, 100), (2, 1_000), (59, 1_000)])
def test_a_copy_ahead_of_its_record_is_asked_about_again(asked: int, left_ms: int) -> None:
    copy = replace(COPY, asked=asked)
    publication = Publication(
        copy=replace(copy, asked=asked + 1), route=Route.WHEEL, left_ms=left_ms, exact=False, kind=CopyKind.CHECKED
    )
    wanted = Perform(Publish(publication))

    assert after_fire(RECORDS, due(copy, kind=CopyKind.CHECKED), fired("ahead")) == wanted
    assert after_return(RECORDS, copy, returned("ahead"), "rejected", effective()) == wanted


@pytest.mark.parametrize(
    ("kind", "before", "again"),
    [
        (CopyKind.PLAIN, NamedBefore.MESSAGE, CopyKind.CHECKED),
        (CopyKind.CHECKED, NamedBefore.MESSAGE, CopyKind.CHECKED),
        (CopyKind.RETRY, NamedBefore.MESSAGE, CopyKind.RETRY),
        (CopyKind.MOVE, NamedBefore.FORMER, CopyKind.MOVE),
        (CopyKind.LEASE, NamedBefore.MESSAGE, CopyKind.CHECKED),
        (CopyKind.HOLD, NamedBefore.MESSAGE, CopyKind.CHECKED),
    ],
)
def test_kind_of_a_copy_tells_what_a_record_has_named(kind: CopyKind, before: NamedBefore, again: CopyKind) -> None:
    item = due(replace(COPY, asked=0), kind=kind)
    assert named(item) is before
    decision = after_fire(RECORDS, item, fired("ahead"))
    assert isinstance(decision, Perform)
    assert isinstance(decision.step, Publish)
    assert decision.step.publication.kind is again


@pytest.mark.parametrize(
    ("copy", "kind"), [(replace(COPY, epoch=2), CopyKind.LEASE), (replace(COPY, asked=1), CopyKind.HOLD)]
)
def test_copy_that_no_record_may_have_named_tells_nothing(copy: Copy, kind: CopyKind) -> None:
    assert named(due(copy, kind=kind)) is NamedBefore.NOTHING


def test_a_copy_ahead_of_a_message_that_waits_for_later_is_asked_about_after_that_moment() -> None:
    copy = replace(COPY, asked=60)
    publication = Publication(
        copy=replace(copy, asked=61), route=Route.WHEEL, left_ms=90_000 + 1_000, exact=False, kind=CopyKind.HOLD
    )

    decision = after_fire(RECORDS, due(copy), Outcome(FireVerdict.AHEAD, NOW_MS, 90_000, RECORD))
    assert decision == Perform(Publish(publication))


@pytest.mark.parametrize(("verdict", "counts"), [("expired", CopyResult.EXPIRED), ("ghost", CopyResult.GHOST)])
def test_a_copy_of_an_ended_message_is_not_published(verdict: str, counts: CopyResult) -> None:
    assert after_fire(RECORDS, due(COPY), fired(verdict)) == Drop(counts)
    assert after_return(RECORDS, COPY, returned(verdict), "rejected", effective()) == Drop(counts)


@pytest.mark.parametrize(
    ("decision", "attempts", "reason"),
    [
        (after_fire(RECORDS, due(COPY), fired("bury")), 1, "retries used up"),
        (after_return(RECORDS, COPY, returned("bury"), "rejected", effective()), 2, "rejected"),
    ],
)
def test_a_copy_whose_retries_are_used_up_is_buried_as_a_successor(
    decision: Decision, attempts: int, reason: str
) -> None:
    step = successor(decision)
    arguments = named_by(step)
    buried = step.publication.copy

    assert decision == Perform(step, CopyResult.DEAD)
    assert (step.publication.route, step.publication.reason) == (Route.DEAD, reason)
    assert buried == replace(AS_RECORDED, epoch=4, nonce=buried.nonce)
    assert arguments == {
        "script": "bury",
        "epoch": 3,
        "nonce": 7,
        "next_epoch": 4,
        "next_nonce": buried.nonce,
        "attempts": attempts,
        "reason": reason,
        "by": "-",
    }
    assert buried.nonce != 7


@pytest.mark.parametrize(
    ("backoff", "wait_ms"),
    [(None, 0), (Backoff(steps_ms=(100, 5_000)), 5_000), (Backoff(first_ms=100, factor=3, max_ms=9_000), 300)],
)
def test_a_rejected_copy_returns_to_the_wheel_for_its_back_off(backoff: Backoff | None, wait_ms: int) -> None:
    decision = after_return(RECORDS, COPY, returned("retry"), "rejected", effective(Policy(backoff=backoff)))
    step = successor(decision)
    arguments = named_by(step)
    retried = step.publication.copy

    assert (step.publication.route, step.publication.left_ms, step.publication.kind) == (
        Route.WHEEL,
        wait_ms,
        CopyKind.RETRY,
    )
    assert retried == replace(AS_RECORDED, epoch=4, nonce=retried.nonce, attempt=3, due_ms=NOW_MS + wait_ms)
    assert arguments == {
        "script": "retry",
        "epoch": 3,
        "nonce": 7,
        "next_epoch": 4,
        "next_nonce": retried.nonce,
        "due_ms": NOW_MS + wait_ms,
        "attempts": 2,
        "reason": "rejected",
        "by": "-",
    }
    assert decision == Perform(step, CopyResult.RETRIED)
