"""Tests the comparison of two states, without servers."""

from __future__ import annotations

from functools import partial

import pytest

from tests.soak.allowances import allowed as of_labels
from tests.soak.look import labels
from tests.soak.state import Kind, State, remainders, unfinished

allowed = partial(of_labels, labels=0)
NOTHING: State = {kind: {} for kind in Kind}


def test_equal_states_have_no_remainders() -> None:
    state = {**NOTHING, Kind.QUEUE: {"ready.a": 1}, Kind.MEMORY: {"resident": 90 << 20}}
    assert remainders(state, state, allowed) == []


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ({}, {"delay/{a}/m/1": 1}, "Redis key delay/{a}/m/1: 0 before, 1 after"),
        ({"delay/topics a": 1}, {}, "Redis key delay/topics a: 1 before, 0 after"),
    ],
)
def test_key_that_came_or_went_is_named(before: dict[str, int], after: dict[str, int], line: str) -> None:
    assert remainders({**NOTHING, Kind.KEY: before}, {**NOTHING, Kind.KEY: after}, allowed) == [line]


def test_of_many_names_the_first_twenty_are_shown() -> None:
    many = {f"queue-{number:02}": 1 for number in range(25)}
    lines = remainders(NOTHING, {**NOTHING, Kind.QUEUE: many}, allowed)
    assert lines[0] == "queue queue-00: 0 before, 1 after"
    assert lines[20:] == ["queue: and 5 more"]


@pytest.mark.parametrize(
    ("kind", "name", "growth", "left"),
    [
        (Kind.MEMORY, "resident", -(1 << 20), 0),
        (Kind.MEMORY, "resident", 4 << 20, 0),
        (Kind.MEMORY, "resident", 64 << 20, 1),
        (Kind.ENTRIES, "bridge.model.recent.Recent._values", 500, 1),
        (Kind.ENTRIES, "bridge.loops.audit.Audit._reported", 500, 1),
        (Kind.OBJECTS, "_asyncio.Task", 10, 0),
        (Kind.OBJECTS, "_asyncio.Task", 500, 1),
    ],
)
def test_memory_may_grow_by_its_allowance(kind: Kind, name: str, growth: int, left: int) -> None:
    before, after = {**NOTHING, kind: {name: 100 << 20}}, {**NOTHING, kind: {name: (100 << 20) + growth}}
    assert len(remainders(before, after, allowed)) == left


def test_records_queued_messages_and_removed_topics_are_unfinished() -> None:
    queues = {"ready.a": 3, "dead.a": 1, "dead.passing-1": 1}
    keys = {"delay/{a}/m/1": 1, "delay/places/1": 1, "delay/topics a": 1}
    state = {**NOTHING, Kind.KEY: keys, Kind.QUEUE: queues}
    assert unfinished(state) == [
        "Redis key delay/{a}/m/1",
        "Redis key delay/places/1",
        "queue ready.a: 2 messages",
        "queue dead.passing-1 of a removed topic",
    ]


def test_topics_with_new_labels_are_allowed_their_memory() -> None:
    before = {**NOTHING, Kind.MEMORY: {"blocks": 1_000}}
    after = {**NOTHING, Kind.MEMORY: {"blocks": 16_000}}
    assert remainders(before, after, partial(of_labels, labels=20)) == []
    assert len(remainders(before, after, allowed)) == 1


def test_labels_of_removed_topics_and_of_fixed_values_are_left_out() -> None:
    text = '# HELP x\nx_bucket{le="0.1",topic="a"} 3.0\nx_total{topic="passing-1"} 2.0\nup{part="store"} 1.0\n'
    answered = 'x_total{code="200",operation="delete"} 1.0\nx_total{code="409",operation="delete"} 1.0\n'
    scripts = 'x_seconds_count{script="abandon"} 1.0\n'
    assert labels(text + answered + scripts) == {'topic="a"': 1, 'part="store"': 1, 'operation="delete"': 1}
