"""Tests under which id a dead letter is decided about, by the outcomes of Redis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bridge.model.message import Copy, Envelope, Record, State, aside_id, taken_id, valid_id
from bridge.service.succession import Step
from bridge.service.taken_ids import followed, sought
from bridge.store.keys import Keys
from bridge.store.outcomes import Outcome
from bridge.store.records import Records
from bridge.store.verdicts import Verdict

RECORDS = Records(keys=Keys("delay"), retention_ms=1, tombstone_ms=2)
DELIVERY: Any = object()
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
FOUND = Record("orders", "m-1~dead77", State.DEAD, 3, 77, 1, 1, 0, 1, 0, 1, 1, 0, 1, 0, "refused", "")


def outcome(verdict: Verdict, record: Record | None = None) -> Outcome:
    return Outcome(verdict, 0, 0, record)


NONE = outcome(Verdict.UNKNOWN)
ASIDE = outcome(Verdict.FOUND, FOUND)
REPLAYED = outcome(Verdict.FOUND, replace(FOUND, state=State.WAITING))
DROPPED = outcome(Verdict.FOUND, replace(FOUND, state=State.DELETED, forget_ms=9))
LOOK, DROP, DROP_ASIDE = "look m-1~dead77", "drop m-1", "drop m-1~dead77"


def drop(letter: Copy, delivery: Any) -> Step:
    return Step(name=RECORDS.drop(letter.topic, letter.id, epoch=letter.epoch, nonce=letter.nonce), delivery=delivery)


def calls_of(step: Step | None, outcomes: list[Outcome]) -> list[str]:
    """The calls of a step and of those that follow, each answered with the next outcome."""
    calls: list[str] = []
    while step is not None and step.name is not None:
        assert step.delivery is DELIVERY
        calls.append(f"{step.name.script.name} {step.name.message_id}")
        step = step.then(outcomes[len(calls) - 1]) if step.then is not None else None
    return calls


@pytest.mark.parametrize(
    ("outcomes", "calls"),
    [
        ([NONE, outcome(Verdict.DROPPED)], [LOOK, DROP]),
        ([ASIDE, outcome(Verdict.DROPPED)], [LOOK, DROP_ASIDE]),
        ([REPLAYED, outcome(Verdict.STALE), REPLAYED], [LOOK, DROP, LOOK]),
        ([DROPPED, outcome(Verdict.GHOST), DROPPED], [LOOK, DROP, LOOK]),
        ([NONE, outcome(Verdict.UNKNOWN)], [LOOK, DROP]),
        ([NONE, outcome(Verdict.STALE), ASIDE, outcome(Verdict.DROPPED)], [LOOK, DROP, LOOK, DROP_ASIDE]),
        ([NONE, outcome(Verdict.GHOST), ASIDE, outcome(Verdict.GHOST)], [LOOK, DROP, LOOK, DROP_ASIDE]),
        ([NONE, outcome(Verdict.GHOST), NONE], [LOOK, DROP, LOOK]),
    ],
)
def test_letter_is_sought_under_its_new_id_before_and_after_the_decision(
    outcomes: list[Outcome], calls: list[str]
) -> None:
    assert calls_of(sought(RECORDS, LETTER, DELIVERY, drop), outcomes) == calls


@pytest.mark.parametrize(
    ("outcomes", "calls"),
    [
        ([outcome(Verdict.DROPPED)], [DROP]),
        ([outcome(Verdict.STALE), ASIDE, outcome(Verdict.DROPPED)], [DROP, LOOK, DROP_ASIDE]),
    ],
)
def test_letter_whose_id_is_taken_during_its_decision_is_followed(outcomes: list[Outcome], calls: list[str]) -> None:
    assert calls_of(followed(RECORDS, LETTER, DELIVERY, drop), outcomes) == calls


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
