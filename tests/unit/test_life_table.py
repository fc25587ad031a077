"""Tests the table of the scripts' headers: how it is read, and what it says of moves and timelines."""

from __future__ import annotations

import pytest

from bridge.model.message import State
from bridge.model.timeline import What
from tests.life_table import FORGETTING, TABLE, Arrow, Named, read

WAITING = Named(State.WAITING, created_ms=1, epoch=1, nonce=7, due_ms=5, lease_until_ms=0)
ACKED = WAITING._replace(state=State.ACKED)


def test_header_of_several_lines_is_read_whole() -> None:
    lines = (
        "-- Life: live -> acked (acked)",
        "-- Also: none",
        "--       acked => ready; dead -> none",
        "-- Promise: no",
    )

    found = read([("end", "\n".join(lines))])

    assert found.drawn == {Arrow("end", state, "acked"): ("acked",) for state in ("waiting", "ready", "leased")}
    assert found.arrows.keys() - found.drawn.keys() == {
        Arrow("end", "none", "ready", replaces=True),
        Arrow("end", "acked", "ready", replaces=True),
        Arrow("end", "dead", "none"),
    }


@pytest.mark.parametrize("part", ["waiting to ready", "waiting -> red", "waiting ->", "waiting -> ready released"])
def test_header_without_the_form_is_refused(part: str) -> None:
    with pytest.raises(ValueError, match="release"):
        read([("release", f"-- Life: {part}\n")])


def test_words_of_the_headers_are_those_of_timelines() -> None:
    words = {word for said in TABLE.arrows.values() for word in said}

    assert words - {"forgotten"} == set(What)


def test_move_that_no_header_names_is_refused() -> None:
    with pytest.raises(LookupError, match="fire moved the record from acked to waiting"):
        TABLE.arrow("fire", ACKED, WAITING)


def test_another_message_may_take_the_record_of_an_ended_one() -> None:
    another = WAITING._replace(created_ms=2)

    assert TABLE.arrow("fire", ACKED, another) == Arrow("fire", "acked", "waiting", replaces=True)


def test_record_that_says_the_same_has_made_no_move() -> None:
    assert TABLE.arrow("look", WAITING, WAITING) is None


def test_leased_record_is_not_forgotten() -> None:
    with pytest.raises(LookupError):
        TABLE.arrow(FORGETTING, WAITING._replace(state=State.LEASED), None)


@pytest.mark.parametrize(
    ("words", "state"),
    [
        ([], State.READY),
        ([What.SENT, What.RELEASED, What.LEASED, What.RETURNED, What.LEASED, What.ACKED], State.ACKED),
        ([What.SENT], State.WAITING),
        ([What.SENT, What.LEASED], State.LEASED),  # it was due at once
        ([What.LEASED, What.NACKED, What.RELEASED], State.READY),
        ([What.REPLACED, What.DELETED], State.DELETED),
        ([What.BURIED, What.REPLAYED, What.MOVED], State.WAITING),
    ],
)
def test_timeline_of_a_life_fits(words: list[What], state: State) -> None:
    assert TABLE.misfit(words, state) == ""


@pytest.mark.parametrize(
    ("words", "state", "says"),
    [
        ([What.SENT, What.ACKED, What.LEASED], State.LEASED, "leased from acked"),
        ([What.SENT, What.DELETED], State.READY, "ready from deleted"),
        ([What.LEASED, What.SENT], State.WAITING, "sent is no beginning"),
        ([What.DROPPED, What.REPLAYED], State.WAITING, "replayed from deleted"),
    ],
)
def test_timeline_that_the_table_does_not_explain_is_named(words: list[What], state: State, says: str) -> None:
    assert TABLE.misfit(words, state) == says
