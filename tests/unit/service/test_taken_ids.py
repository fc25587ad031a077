"""Tests under which id a dead letter is decided about, by the outcomes of Redis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bridge.model.errors import StoreUnavailable
from bridge.model.message import Copy, Envelope, Record, State, aside_id, may_be_sent, taken_id, valid_id
from bridge.service.dead.taken_ids import DeadLetterVerdict, possible_ids, search_then_settle, settle_then_search
from bridge.service.protocol.deliveries import Acked, Held, Requeued, Work
from bridge.service.protocol.steps import Step, Update
from bridge.store.keys import Keys
from bridge.store.messages.outcomes import Outcome
from bridge.store.messages.records import Records
from bridge.store.messages.verdicts import DropVerdict, LookVerdict
from tests.records import record

RECORDS = Records(keys=Keys("delay"), retention_ms=1, tombstone_ms=2)
LETTER = Copy(
    topic="orders",
    id="m-1",
    epoch=3,
    nonce=77,
    attempt=1,
    max_retry=0,
    due_ms=1,
    expires_ms=0,
    created_ms=1,
    envelope=Envelope(),
)
FOUND = record(id="m-1", state=State.DEAD, epoch=3, nonce=77, attempts=1, max_retry=0, ended_ms=1, reason="refused")


def outcome(verdict: DeadLetterVerdict, record: Record | None = None) -> Outcome[DeadLetterVerdict]:
    return Outcome(verdict, 0, 0, record)


def at(name: str, **changes: Any) -> Outcome[DeadLetterVerdict]:
    """The record of the letter's message under a name, changed so."""
    return outcome(LookVerdict.FOUND, replace(FOUND, id=name, **changes))


FIRST, SECOND, THIRD = "m-1", "m-1~dead77", "m-1~dead77~dead77"
NONE = outcome(LookVerdict.UNKNOWN)
REPLAYED: Any = {"state": State.WAITING, "epoch": 4, "nonce": 5}
NEW: Any = {"state": State.WAITING, "epoch": 4, "nonce": 6, "created_ms": 9}
UNRELATED: Any = {"state": State.WAITING, "epoch": 1, "nonce": 6, "created_ms": 9}
DROPPED: Any = {"state": State.DELETED, "forget_ms": 9}
ALIVE: Any = {"state": State.LEASED, "epoch": 2, "nonce": 4}
DONE, TAKEN = outcome(DropVerdict.DROPPED), outcome(DropVerdict.STALE)
OTHERS = len(possible_ids(LETTER))


def drop(letter: Copy) -> Step[DeadLetterVerdict]:
    return Update(RECORDS.drop(letter.topic, letter.id, epoch=letter.epoch, nonce=letter.nonce))


def calls_of(work: Work[DeadLetterVerdict], outcomes: list[Outcome[DeadLetterVerdict]]) -> list[str]:
    """The calls of a work and of those that follow, each answered with the next outcome, and what becomes of the
    delivery."""
    calls: list[str] = []
    for given in outcomes:
        step = work.step
        assert isinstance(step, Update)
        calls.append(f"{step.name.script.name} {step.name.message_id}")
        match work.after(given):
            case Acked(result) if result is given:
                calls.append("ack")
            case Held(result) if result is given:
                calls.append("hold")
            case following:
                assert not isinstance(following, (Acked, Held, Requeued))
                work = following
    assert len(calls) == len(outcomes) + 1
    return calls


def looks(count: int) -> list[str]:
    return [f"look {name}" for name in possible_ids(LETTER)[:count]]


@pytest.mark.parametrize(
    ("outcomes", "calls"),
    [
        pytest.param([at(FIRST), DONE], [*looks(1), f"drop {FIRST}", "ack"], id="own name"),
        pytest.param([at(FIRST, **NEW), at(SECOND), DONE], [*looks(2), f"drop {SECOND}", "ack"], id="second name"),
        pytest.param(
            [at(FIRST, **NEW), at(SECOND, **NEW), at(THIRD), DONE], [*looks(3), f"drop {THIRD}", "ack"], id="third name"
        ),
        pytest.param([NONE, NONE, at(THIRD), DONE], [*looks(3), f"drop {THIRD}", "ack"], id="forgotten takers"),
        pytest.param(
            [at(FIRST), TAKEN, at(SECOND), TAKEN, at(THIRD), DONE],
            [looks(1)[0], f"drop {FIRST}", looks(2)[1], f"drop {SECOND}", looks(3)[2], f"drop {THIRD}", "ack"],
            id="taken while it is decided about",
        ),
        pytest.param([at(FIRST, **REPLAYED)], [*looks(1), "ack"], id="replayed"),
        pytest.param([at(FIRST, **DROPPED)], [*looks(1), "ack"], id="dropped"),
        pytest.param([at(FIRST, **NEW), at(SECOND, **REPLAYED)], [*looks(2), "ack"], id="replayed under second name"),
        pytest.param([at(FIRST, **NEW), *[NONE] * (OTHERS - 1)], [*looks(OTHERS), "ack"], id="id taken after its end"),
        pytest.param([at(FIRST, **ALIVE)], [*looks(1), "hold"], id="about to be named"),
        pytest.param([NONE] * OTHERS + [DONE], [*looks(OTHERS), f"drop {FIRST}", "ack"], id="no record"),
        pytest.param(
            [at(FIRST, **UNRELATED), *[NONE] * (OTHERS - 1), DONE],
            [*looks(OTHERS), f"drop {SECOND}", "ack"],
            id="record lost and id taken",
        ),
        pytest.param([at(FIRST, **UNRELATED)] * OTHERS, [*looks(OTHERS), "hold"], id="no free name"),
    ],
)
def test_letter_is_acknowledged_only_under_its_own_record_or_when_it_was_certainly_settled(
    outcomes: list[Outcome[DeadLetterVerdict]], calls: list[str]
) -> None:
    assert calls_of(search_then_settle(RECORDS, LETTER, drop), outcomes) == calls


@pytest.mark.parametrize(
    ("outcomes", "calls"),
    [
        ([DONE], [f"drop {FIRST}", "ack"]),
        ([TAKEN, at(SECOND), DONE], [f"drop {FIRST}", looks(2)[1], f"drop {SECOND}", "ack"]),
        ([TAKEN, at(SECOND, **NEW), at(THIRD), DONE], [f"drop {FIRST}", *looks(3)[1:], f"drop {THIRD}", "ack"]),
        ([TAKEN, *[NONE] * (OTHERS - 1)], [f"drop {FIRST}", *looks(OTHERS)[1:], "ack"]),
    ],
)
def test_letter_whose_id_is_taken_during_its_decision_is_followed(
    outcomes: list[Outcome[DeadLetterVerdict]], calls: list[str]
) -> None:
    assert calls_of(settle_then_search(RECORDS, LETTER, drop), outcomes) == calls


@pytest.mark.parametrize("begin", [search_then_settle, settle_then_search])
def test_letter_is_requeued_if_redis_does_not_answer(begin: Callable[..., Work[DeadLetterVerdict]]) -> None:
    away = StoreUnavailable("away")
    assert begin(RECORDS, LETTER, drop).after(away) == Requeued(away)


@pytest.mark.parametrize("message_id", ["x", "x" * 200, "x" * 200 + "~dead1", "~dead1"])
def test_ids_of_a_dead_letter_are_few_and_valid_and_nobody_can_send_the_last(message_id: str) -> None:
    found = possible_ids(replace(LETTER, id=message_id, nonce=2**48 - 1))
    assert len(found) <= 12
    assert all(map(valid_id, found))
    assert [may_be_sent(name) for name in found] == [True] * (len(found) - 1) + [False]
    assert {taken_id(name) for name in found} == {taken_id(message_id)}


@pytest.mark.parametrize("message_id", ["m-1", "m-1~dead77", "x" * 200, "~dead1"])
def test_dead_letter_keeps_its_bucket_under_its_new_id(message_id: str) -> None:
    keys = Keys("delay", buckets=16)
    aside = aside_id(message_id, 2**48 - 1)
    assert keys.bucket(aside) == keys.bucket(message_id)
    assert valid_id(aside)


@pytest.mark.parametrize(
    ("message_id", "taken"),
    [
        ("m-1~dead77", "m-1"),
        ("m-1~dead7~dead8", "m-1"),
        ("m-1~dead", "m-1~dead"),
        ("m~dead7-1", "m~dead7-1"),
        ("m-1", "m-1"),
    ],
)
def test_id_that_was_taken_is_without_the_suffix(message_id: str, taken: str) -> None:
    assert taken_id(message_id) == taken
