"""Tests each judgement on a short, literal history of one message. The instants are small numbers of milliseconds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.events import Event, What
from tests.judging import PROMISES, Verdict, judge
from tests.life import RETENTION_MS

MAX_RETRY = 1
NOW_MS = 100
IT = ("it",)


def event(at_ms: int, what: What, due_ms: int = 0, attempt: int = 0) -> Event:
    return Event(at_ms, "it", what, due_ms, attempt)


def clock(at_ms: int, offset_ms: int) -> Event:
    return Event(at_ms, "", What.CLOCK, due_ms=offset_ms)


SENT = (event(10, What.SENDING, due_ms=50), event(12, What.ACCEPTED))
PULLED = event(51, What.PULLED, due_ms=50, attempt=1)
LEASED = event(51, What.LEASED, due_ms=61)
ACKED = event(52, What.ACKING)
RETURNED = event(52, What.RETURNED, attempt=1)
PULLED_AGAIN = event(60, What.PULLED, due_ms=50, attempt=2)
RETURNED_AGAIN = event(61, What.RETURNED, attempt=2)
DELETED = (event(20, What.DELETING), event(22, What.DELETED))
NOT_DELETED = (event(20, What.DELETING), event(22, What.NOT_DELETED))
DEAD = event(99, What.DEAD)
FORGOTTEN = event(99, What.FORGOTTEN)
MOVED_SOONER = (event(20, What.MOVING, due_ms=30), event(22, What.MOVED, due_ms=30))
MOVED_LATER = (event(20, What.MOVING, due_ms=80), event(22, What.MOVED, due_ms=80))
PULLED_NOW = (event(25, What.PULLED, due_ms=21, attempt=1),)
UNCHECKED = event(11, What.UNCHECKED)
EMPTIED = Event(40, "", What.EMPTIED)
DIED = (*SENT, PULLED, RETURNED, event(55, What.DEAD))
REPLAYED = (event(56, What.REPLAYING), event(58, What.REPLAYED))

CLEAN = Verdict(accepted=IT, delivered=IT)
UNDELIVERED = Verdict(accepted=IT)
LOST = replace(UNDELIVERED, lost=IT)
LOST_AGAIN = replace(CLEAN, lost=IT)
DUPLICATED = replace(CLEAN, duplicated=IT)
LEASE_CUT = replace(DUPLICATED, lease_cut=IT)
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
    "pulled as often after a refused try that was a message of its own": (
        (
            *(SENT[0], PULLED, RETURNED, PULLED_AGAIN, RETURNED_AGAIN, SENT[0], SENT[1]),
            *(replace(PULLED, at_ms=70, created_ms=65), ACKED),
        ),
        CLEAN,
    ),
    "pulled more often than allowed after a try without an answer": (
        (
            *(SENT[0], event(30, What.UNANSWERED), PULLED, RETURNED, PULLED_AGAIN, RETURNED_AGAIN, SENT[0], SENT[1]),
            *(replace(PULLED, at_ms=70), ACKED),
        ),
        replace(CLEAN, over_limit=IT),
    ),
    "given back, and acked in another delivery": ((*SENT, PULLED, ACKED, PULLED_AGAIN, RETURNED), CLEAN),
    "an attempt beyond the limit": (
        (*SENT, replace(PULLED, attempt=3), ACKED),
        replace(CLEAN, over_limit=IT),
    ),
    "moved sooner and delivered then": ((*SENT, *MOVED_SOONER, replace(PULLED, at_ms=31, due_ms=30), ACKED), CLEAN),
    "moved later and delivered at the first moment": (
        (*SENT, *MOVED_LATER, PULLED, ACKED),
        replace(CLEAN, early=IT),
    ),
    "moved later and delivered then": ((*SENT, *MOVED_LATER, replace(PULLED, at_ms=81, due_ms=80), ACKED), CLEAN),
    "moved later, which nobody answered": ((*SENT, MOVED_LATER[0], PULLED, ACKED), CLEAN),
    "moved sooner, which nobody answered": (
        (*SENT, MOVED_SOONER[0], replace(PULLED, at_ms=31, due_ms=30), ACKED),
        CLEAN,
    ),
    "a move sooner that was refused": (
        (*SENT, MOVED_SOONER[0], event(23, What.NOT_MOVED), replace(PULLED, at_ms=31, due_ms=30), ACKED),
        replace(CLEAN, early=IT),
    ),
    "a move sooner beside a refused one": (
        (
            *(*SENT, MOVED_SOONER[0], replace(MOVED_LATER[0], at_ms=22), event(23, What.NOT_MOVED)),
            *(replace(PULLED, at_ms=31, due_ms=30), ACKED),
        ),
        CLEAN,
    ),
    "moved and never seen": ((*SENT, *MOVED_SOONER), LOST),
    "moved later, deleted after its first moment and delivered": (
        (*SENT, *MOVED_LATER, event(60, What.DELETED), replace(PULLED, at_ms=81, due_ms=80)),
        DELETED_BUT_DELIVERED,
    ),
    "deleted beside a refused move to now, and delivered": (
        (*SENT, *MOVED_SOONER[:1], *DELETED, event(24, What.NOT_MOVED), PULLED),
        DELETED_BUT_DELIVERED,
    ),
    "deleted beside a move to now, and delivered": (
        (*SENT, replace(MOVED_SOONER[0], due_ms=21), *DELETED, replace(MOVED_SOONER[1], due_ms=21), *PULLED_NOW),
        CLEAN,
    ),
    "deleted on a direct topic, and consumed": (
        (*SENT, UNCHECKED, *DELETED, replace(PULLED, what=What.CONSUMED)),
        CLEAN,
    ),
    "deleted on a direct topic, and pulled": ((*SENT, UNCHECKED, *DELETED, PULLED), DELETED_BUT_DELIVERED),
    "moved later on a direct topic, and consumed at the first moment": (
        (*SENT, UNCHECKED, *MOVED_LATER, replace(PULLED, what=What.CONSUMED), ACKED),
        CLEAN,
    ),
    "moved later on a direct topic, and consumed before any moment": (
        (*SENT, UNCHECKED, *MOVED_LATER, replace(PULLED, what=What.CONSUMED, at_ms=49, due_ms=0), ACKED),
        replace(CLEAN, early=IT),
    ),
    "pulled in a pause": ((*SENT, PULLED, event(51, What.IN_PAUSE), ACKED), replace(CLEAN, during_pause=IT)),
    "pulled again before its lease ends": ((*SENT, PULLED, LEASED, PULLED_AGAIN, ACKED), LEASE_CUT),
    "pulled again when its lease ends": ((*SENT, PULLED, replace(LEASED, due_ms=60), PULLED_AGAIN, ACKED), DUPLICATED),
    "given back before its lease ends": (
        (*SENT, PULLED, LEASED, RETURNED, event(53, What.MOVING, due_ms=53), PULLED_AGAIN, ACKED),
        CLEAN,
    ),
    "leased as Redis was emptied": ((*SENT, EMPTIED, PULLED, LEASED, PULLED_AGAIN, ACKED), DUPLICATED),
    "dead, replayed and delivered": ((*DIED, *REPLAYED, PULLED_AGAIN, ACKED), CLEAN),
    "dead, replayed, and delivered before the answer": ((*DIED, REPLAYED[0], PULLED_AGAIN, ACKED, REPLAYED[1]), CLEAN),
    "dead, replayed and never seen": ((*DIED, *REPLAYED), LOST_AGAIN),
    "dead, replayed, which nobody answered": ((*DIED, REPLAYED[0]), CLEAN),
    "dead, replayed, and dead again": ((*DIED, *REPLAYED, PULLED_AGAIN, RETURNED_AGAIN, DEAD), CLEAN),
    "pulled as often after a replay": (
        (*DIED, PULLED_AGAIN, RETURNED_AGAIN, *REPLAYED, PULLED_AGAIN, RETURNED_AGAIN, PULLED_AGAIN, ACKED),
        CLEAN,
    ),
    "sent by two clients, and pulled as often": (
        (
            *(SENT[0], event(10, What.BESIDE), SENT[1], SENT[0], SENT[1]),
            *(PULLED, RETURNED, PULLED_AGAIN, RETURNED_AGAIN, PULLED, RETURNED, PULLED_AGAIN, ACKED),
        ),
        CLEAN,
    ),
    "delivered before it is due, and the clock was never set meanwhile": (
        (clock(5, 20), clock(8, 0), *SENT, replace(PULLED, at_ms=49), ACKED),
        replace(CLEAN, early=IT),
    ),
    "delivered before it is due while the clock was ahead": (
        (*SENT, clock(20, 20), replace(PULLED, at_ms=31), clock(40, 0), ACKED),
        CLEAN,
    ),
    "delivered before it is due by more than the clock was ahead": (
        (*SENT, clock(20, 20), replace(PULLED, at_ms=29), clock(40, 0), ACKED),
        replace(CLEAN, early=IT),
    ),
    "sent and delivered while the clock was ahead": (
        (clock(5, 20), *SENT, replace(PULLED, at_ms=51, due_ms=70), ACKED),
        CLEAN,
    ),
    "sent while the clock was behind": (
        (clock(5, -20), *SENT, clock(20, 0), replace(PULLED, at_ms=31), ACKED),
        CLEAN,
    ),
    "sent to a direct topic while the clock was behind, and late by less": (
        (clock(5, -60), *SENT, UNCHECKED, clock(20, 0)),
        UNDELIVERED,
    ),
    "sent to a direct topic while the clock was behind, and late by more": (
        (clock(5, -40), *SENT, UNCHECKED, clock(20, 0)),
        LOST,
    ),
    "sent to a direct topic before the clock was set back": (
        (*SENT, UNCHECKED, clock(20, -60), clock(40, 0)),
        LOST,
    ),
    "sent to a checked topic while the clock was behind": ((clock(5, -60), *SENT, clock(20, 0)), LOST),
    "sent to a checked topic while the clock was behind, and Redis was emptied": (
        (clock(5, -60), *SENT, clock(20, 0), EMPTIED),
        UNDELIVERED,
    ),
    "sent to a checked topic while the clock was behind, and Redis was emptied before": (
        (EMPTIED, clock(5, -60), *SENT, clock(20, 0)),
        LOST,
    ),
    "moved to later while the clock was ahead": (
        (*SENT, clock(15, 40), event(20, What.MOVING, due_ms=110), event(22, What.MOVED, due_ms=110), clock(30, 0)),
        UNDELIVERED,
    ),
    "moved to later while the clock was behind": (
        (*SENT, clock(15, -60), event(20, What.MOVING, due_ms=60), event(22, What.MOVED, due_ms=60), clock(30, 0)),
        LOST,
    ),
    "moved to sooner while the clock was ahead": (
        (*SENT, clock(15, 40), event(20, What.MOVING, due_ms=45), event(22, What.MOVED, due_ms=45), clock(30, 0)),
        LOST,
    ),
    "deleted while the clock was ahead, and delivered": (
        (*SENT, clock(15, 40), *DELETED, clock(30, 0), PULLED),
        CLEAN,
    ),
    "accepted and then unknown": ((*SENT, PULLED, ACKED, FORGOTTEN), replace(CLEAN, forgotten=IT)),
    "acked, and unknown after the clock went ahead by the retention": (
        (*SENT, PULLED, ACKED, clock(60, RETENTION_MS), FORGOTTEN),
        CLEAN,
    ),
    "pulled again by a pull that began before the ack was answered": (
        (*SENT, PULLED, ACKED, replace(ACKED, what=What.ACKED), replace(PULLED_AGAIN, asked_ms=52)),
        DUPLICATED,
    ),
    "pulled again after the ack was answered": (
        (*SENT, PULLED, ACKED, replace(ACKED, what=What.ACKED), replace(PULLED_AGAIN, asked_ms=53)),
        replace(DUPLICATED, back_after_ack=IT),
    ),
    "dropped, and pulled by a pull that began later": (
        (*DIED, event(60, What.DROPPED), replace(PULLED_AGAIN, at_ms=70, asked_ms=61)),
        replace(CLEAN, back_after_ack=IT),
    ),
    "dropped": ((*DIED, event(60, What.DROPPED)), CLEAN),
    "pulled again after an ack, and the clock has come back from an hour back": (
        (
            *(clock(5, -3_600_000), *SENT, PULLED, ACKED, replace(ACKED, what=What.ACKED), clock(55, 0)),
            replace(PULLED_AGAIN, asked_ms=56),
        ),
        DUPLICATED,
    ),
    "pulled again after an ack, and the clock has come back from less than an hour back": (
        (
            *(clock(5, -3_599_999), *SENT, PULLED, ACKED, replace(ACKED, what=What.ACKED), clock(55, 0)),
            replace(PULLED_AGAIN, asked_ms=56),
        ),
        replace(DUPLICATED, back_after_ack=IT),
    ),
    "sent twice, and pulled again after the ack was answered": (
        (*SENT, SENT[0], PULLED, ACKED, replace(ACKED, what=What.ACKED), replace(PULLED_AGAIN, asked_ms=53)),
        DUPLICATED,
    ),
    "deleted before Redis was emptied, and delivered": ((*SENT, *DELETED, EMPTIED, PULLED), CLEAN),
    "accepted before Redis was emptied, and never seen": ((*SENT, EMPTIED), LOST),
    "sent and deleted after Redis was emptied, and delivered": (
        (EMPTIED, *SENT, *DELETED, PULLED),
        DELETED_BUT_DELIVERED,
    ),
    "consumed as often": (
        (*SENT, *(replace(one, what=What.CONSUMED) for one in (PULLED, PULLED_AGAIN, PULLED_AGAIN)), ACKED),
        DUPLICATED,
    ),
}


@pytest.mark.parametrize(("events", "verdict"), HISTORIES.values(), ids=HISTORIES)
def test_each_history_gets_its_verdict(events: tuple[Event, ...], verdict: Verdict) -> None:
    assert judge(events, now_ms=NOW_MS, max_retry=MAX_RETRY) == verdict


def test_each_message_is_judged_separately() -> None:
    others = [replace(one, message_id="another") for one in (*SENT, PULLED, ACKED)]
    verdict = judge([*SENT, *others], now_ms=NOW_MS, max_retry=MAX_RETRY)
    assert verdict == Verdict(accepted=("another", "it"), delivered=("another",), lost=IT)


def test_only_a_broken_promise_counts_as_wrong() -> None:
    assert replace(CLEAN, duplicated=IT).wrong == {}
    broken = dict.fromkeys(PROMISES, IT)
    assert replace(Verdict(), **broken).wrong == broken
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
        "during_pause": 0,
        "lease_cut": 0,
    }
