"""Tests which script calls are merged into one, and what the merged call has."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.model.message import Copy, Envelope
from bridge.store.calls import MOST, Call, as_one, together
from bridge.store.keys import Keys
from bridge.store.messages.records import Records

RECORDS = Records(keys=Keys("delay", 16), retention_ms=1, tombstone_ms=2)
HERE, ALSO_HERE, ELSEWHERE = "o-1", "o-32", "o-2"  # HERE and ALSO_HERE share an index bucket


def ack(message_id: str, topic: str = "orders") -> Call[Any]:
    return RECORDS.ack(topic, message_id, epoch=7)


def look(message_id: str) -> Call[Any]:
    return RECORDS.look("orders", message_id)


def announce(message_id: str) -> Call[Any]:
    call = RECORDS.announce(copy_of(message_id), arrives_ms=1, now_ms=0)
    assert call is not None
    return call


def superseded(message_id: str) -> Call[Any]:
    return RECORDS.superseded([copy_of(message_id)])


def copy_of(message_id: str) -> Copy:
    return Copy(
        topic="orders",
        id=message_id,
        epoch=1,
        nonce=2,
        attempt=1,
        max_retry=3,
        due_ms=4,
        expires_ms=0,
        created_ms=3,
        envelope=Envelope(),
    )


def test_sample_ids_have_the_homes_their_names_say() -> None:
    here, also_here, elsewhere = (RECORDS.keys.home("orders", one) for one in (HERE, ALSO_HERE, ELSEWHERE))
    assert here == also_here != elsewhere


@pytest.mark.parametrize(
    ("calls", "groups"),
    [
        ([], []),
        ([ack(HERE)], [[0]]),
        ([ack(HERE), ack(HERE), ack(ALSO_HERE)], [[0, 1, 2]]),
        ([ack(HERE), ack(ELSEWHERE), ack(ALSO_HERE), ack(ELSEWHERE)], [[0, 2], [1, 3]]),
        ([ack(HERE), ack(HERE, "others")], [[0], [1]]),
        ([announce(HERE), announce(ALSO_HERE), announce(ELSEWHERE)], [[0, 1], [2]]),
        # A script for one message is never merged, and calls of its home keep their order around it.
        ([look(HERE), look(HERE)], [[0], [1]]),
        ([ack(HERE), look(HERE), ack(HERE), ack(ELSEWHERE)], [[0], [1], [2], [3]]),
        ([ack(HERE), look(ELSEWHERE), ack(HERE)], [[0, 2], [1]]),
        ([ack(HERE), superseded(HERE), ack(HERE)], [[0], [1], [2]]),
        ([ack(HERE)] * (MOST + 1), [list(range(MOST)), [MOST]]),
    ],
)
def test_calls_of_one_script_and_home_are_merged_in_order(calls: list[Call[Any]], groups: list[list[int]]) -> None:
    assert together(calls) == groups


def test_merged_call_has_the_keys_and_arguments_of_each_call() -> None:
    first, second, third = ack(HERE), ack(ALSO_HERE), RECORDS.ack("orders", HERE, epoch=None, copy_gone=True)

    assert as_one([first]) is first
    one = as_one([first, second, third])
    assert one.script is first.script
    assert one.keys == (*first.keys, *second.keys[:2], *third.keys[:2])
    assert one.args == ("", HERE, 1, 2, "", 7, "", 0, "", "-", ALSO_HERE, 7, "", 0, "", "-", HERE, "", "", 1, "", "-")
