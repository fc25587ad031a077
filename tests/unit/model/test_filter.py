"""Tests filters of messages: their patterns, their JSON, and labels as Redis keeps them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model import globs
from bridge.model.filter import Filter, of_json, to_json
from bridge.model.labels import packed, unpacked, valid_value
from bridge.model.message import SHOWN_STATES, State

FILTER = Filter(
    topic="shop/*",
    states=(State.WAITING, State.DEAD),
    due_after_ms=0,
    due_before_ms=9,
    id_prefix="o-",
    labels={"customer": "42"},
    reason="",
    reason_pattern="card *",
)


@given(pattern=st.text("ab*", max_size=8), text=st.text("ab", max_size=10))
def test_glob_matches_as_the_regular_expression_does(pattern: str, text: str) -> None:
    wanted = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None
    assert globs.matches(pattern, text) == wanted


def test_glob_with_many_stars_takes_no_long_time() -> None:
    assert not globs.matches("*a" * 100 + "b", "a" * 200)


@pytest.mark.parametrize("wanted", [FILTER, Filter(), Filter(topic="orders")])
def test_filter_is_read_as_it_was_written(wanted: Filter) -> None:
    assert of_json(to_json(wanted)) == wanted


def test_reason_is_about_ended_messages_unless_states_are_given() -> None:
    assert Filter(reason="x").wanted_states == (State.EXPIRED, State.DEAD)
    assert Filter(reason="x", states=(State.WAITING,)).wanted_states == (State.WAITING,)
    assert Filter(reason_pattern="x*").wanted_states == (State.EXPIRED, State.DEAD)
    assert Filter().wanted_states == SHOWN_STATES


def test_reason_is_the_whole_reason_and_only_its_pattern_knows_asterisks() -> None:
    assert [Filter(reason="err *").takes_reason(each) for each in ("err *", "err 1")] == [True, False]
    assert [Filter(reason_pattern="err *").takes_reason(each) for each in ("err *", "err 1")] == [True, True]
    assert not Filter(reason="err *", reason_pattern="card*").takes_reason("err *")
    assert [Filter(reason="").takes_reason(each) for each in ("", "err")] == [True, False]


@given(st.dictionaries(st.from_regex(r"[a-z0-9_.-]{1,40}", fullmatch=True), st.text().filter(valid_value), max_size=4))
def test_labels_are_read_as_they_were_packed(labels: dict[str, str]) -> None:
    assert unpacked(packed(labels)) == labels
