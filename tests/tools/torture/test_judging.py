"""Tests each judgement on a short, literal history of one message. The instants are small numbers of milliseconds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.judging import Event, Verdict, What, judge

MAX_RETRY = 1
IT = ("it",)


def event(at_ms: int, what: What, due_ms: int = 0, attempt: int = 0) -> Event:
    return Event(at_ms, "it", what, due_ms, attempt)


SENT = (event(10, What.SENDING, due_ms=50), event(12, What.ACCEPTED))
PULLED = event(51, What.PULLED, due_ms=50, attempt=1)
ACKED = event(52, What.ACKING)
RETURNED = event(52, What.RETURNED, attempt=1)
PULLED_AGAIN = event(60, What.PULLED, due_ms=50, attempt=2)
RETURNED_AGAIN = event(61, What.RETURNED, attempt=2)
DELETED = (event(20, What.DELETING), event(22, What.DELETED))
NOT_DELETED = (event(20, What.DELETING), event(22, What.NOT_DELETED))
DEAD = event(99, What.DEAD)
FORGOTTEN = event(99, What.FORGOTTEN)

CLEAN = Verdict(accepted=IT, delivered=IT)
UNDELIVERED = Verdict(accepted=IT)
LOST = replace(UNDELIVERED, lost=IT)
LOST_AGAIN = replace(CLEAN, lost=IT)
DUPLICATED = replace(CLEAN, duplicated=IT)
DELETED_BUT_DELIVERED = replace(CLEAN, deleted_but_delivered=IT)

HISTORIES = {
    "accepted, delivered, acked": ((*SENT, PULLED, ACKED), CLEAN),
    "delivered before its send was answered": ((SENT[0], PULLED, ACKED, SENT[1]), CLEAN),
    "refused and never seen": ((SENT[0],), Verdict()),
    "unanswered and delivered": ((SENT[0], event(30, What.UNANSWERED), PULLED, ACKED), Verdict(delivered=IT)),
    "accepted and never seen": (SENT, LOST),
    "among the dead letters": ((*SENT, DEAD), UNDELIVERED),
    "given back and delivered again": ((*SENT, PULLED, RETURNED, PULLED_AGAIN, ACKED), CLEAN),
    "given back and never seen again": ((*SENT, PULLED, RETURNED), LOST_AGAIN),
    "given back for the last time": ((*SENT, PULLED, RETURNED, PULLED_AGAIN, RETURNED_AGAIN), CLEAN),
    "delivered at the moment it is due": ((*SENT, replace(PULLED, at_ms=50), ACKED), CLEAN),
    "delivered before it is due": ((*SENT, replace(PULLED, at_ms=49), ACKED), replace(CLEAN, early=IT)),
    "delivered before the moment it names": ((*SENT, replace(PULLED, due_ms=52), ACKED), replace(CLEAN, early=IT)),
    "delivered before any of its sends can be due": (
        (*SENT, replace(PULLED, at_ms=45, due_ms=40), ACKED),
        replace(CLEAN, early=IT),
    ),
    "sent twice and due by the first": (
        (SENT[0], event(30, What.UNANSWERED), event(31, What.SENDING, due_ms=71), PULLED, ACKED, SENT[1]),
        CLEAN,
    ),
    "delivered twice and not given back": ((*SENT, PULLED, ACKED, PULLED_AGAIN), DUPLICATED),
    "consumed and then pulled": ((*SENT, replace(PULLED, what=What.CONSUMED), PULLED_AGAIN, ACKED), DUPLICATED),
    "deleted in time": ((*SENT, *DELETED), UNDELIVERED),
    "deleted, which nobody answered": ((*SENT, DELETED[0]), UNDELIVERED),
    "not deleted and never seen": ((*SENT, *NOT_DELETED), LOST),
    "deleted in time and delivered": ((*SENT, *DELETED, PULLED), DELETED_BUT_DELIVERED),
    "deleted after it was due and delivered": (
        (*SENT, event(50, What.DELETED), PULLED),
        CLEAN,
    ),
    "deleted once it was delivered": ((*SENT, PULLED, event(55, What.DELETED)), CLEAN),
    "pulled more often than allowed": (
        (*SENT, PULLED, RETURNED, PULLED_AGAIN, RETURNED_AGAIN, replace(PULLED_AGAIN, at_ms=70, attempt=3), ACKED),
        replace(CLEAN, over_limit=IT),
    ),
    "pulled as often after a try that may have been a message of its own": (
        (
            *(SENT[0], event(30, What.UNANSWERED), PULLED, RETURNED, PULLED_AGAIN, RETURNED_AGAIN, SENT[1]),
            *(replace(PULLED, at_ms=70), ACKED),
        ),
        CLEAN,
    ),
    "given back, and acked in another delivery": ((*SENT, PULLED, ACKED, PULLED_AGAIN, RETURNED), CLEAN),
    "an attempt beyond the limit": (
        (*SENT, replace(PULLED, attempt=3), ACKED),
        replace(CLEAN, over_limit=IT),
    ),
    "accepted and then unknown": ((*SENT, PULLED, ACKED, FORGOTTEN), replace(CLEAN, forgotten=IT)),
    "pulled again by a pull that began before the ack was answered": (
        (*SENT, PULLED, ACKED, replace(ACKED, what=What.ACKED), replace(PULLED_AGAIN, asked_ms=52)),
        DUPLICATED,
    ),
    "pulled again after the ack was answered": (
        (*SENT, PULLED, ACKED, replace(ACKED, what=What.ACKED), replace(PULLED_AGAIN, asked_ms=53)),
        replace(DUPLICATED, back_after_ack=IT),
    ),
    "sent twice, and pulled again after the ack was answered": (
        (*SENT, SENT[0], PULLED, ACKED, replace(ACKED, what=What.ACKED), replace(PULLED_AGAIN, asked_ms=53)),
        DUPLICATED,
    ),
    "consumed as often": (
        (*SENT, *(replace(one, what=What.CONSUMED) for one in (PULLED, PULLED_AGAIN, PULLED_AGAIN)), ACKED),
        DUPLICATED,
    ),
}


@pytest.mark.parametrize(("events", "verdict"), HISTORIES.values(), ids=HISTORIES)
def test_each_history_gets_its_verdict(events: tuple[Event, ...], verdict: Verdict) -> None:
    assert judge(events, max_retry=MAX_RETRY) == verdict


def test_each_message_is_judged_separately() -> None:
    others = [replace(one, message_id="another") for one in (*SENT, PULLED, ACKED)]
    verdict = judge([*SENT, *others], max_retry=MAX_RETRY)
    assert verdict == Verdict(accepted=("another", "it"), delivered=("another",), lost=IT)


def test_only_a_broken_promise_counts_as_wrong() -> None:
    assert replace(CLEAN, duplicated=IT).wrong == {}
    promises = ("lost", "early", "deleted_but_delivered", "over_limit", "forgotten", "back_after_ack")
    broken = dict.fromkeys(promises, IT)
    assert Verdict(**broken).wrong == broken
    assert Verdict(accepted=("a", "b"), lost=IT).counts() == {
        "accepted": 2,
        "delivered": 0,
        "duplicated": 0,
        "lost": 1,
        "early": 0,
        "deleted_but_delivered": 0,
        "over_limit": 0,
        "forgotten": 0,
        "back_after_ack": 0,
    }
