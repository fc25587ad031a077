"""Tests that timelines which no script can have written are named."""

from __future__ import annotations

from bridge.model.message import State
from tests.timelines import misfits

SENT, RELEASED, ACKED = 1, 4, 12  # as in lua/_record.lua
KEY = b"delay/{orders}/m/o-1"


def test_timeline_that_no_header_explains_is_named_with_its_key_and_words() -> None:
    found = [[KEY, int(State.READY), SENT, ACKED, RELEASED]]

    assert [*misfits(found)] == [
        "the timeline of delay/{orders}/m/o-1 has released from acked: sent, acked, released",
    ]


def test_forgotten_record_and_timeline_of_a_life_are_not_named() -> None:
    assert [*misfits([[KEY], [KEY, int(State.ACKED), SENT, RELEASED, ACKED]])] == []
