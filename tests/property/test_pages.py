"""Tests that pages and counts agree with a sorted list, even if many messages are due at one moment."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from subprocess import run as run_program
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.local.redis import RedisNode
from bridge.model.filter import Order
from bridge.model.labels import packed
from bridge.model.message import SHOWN_STATES
from bridge.store import pages
from bridge.store.keys import INDEXES
from tests.examples import examples
from tests.property.test_transitions import connected_store
from tests.property.world import BORN_MS, World

Entry = tuple[int, str]  # due moment, id: the order of a page

FORGET, LABELS = 7, 8  # the places of these indexes
EDGES_MS = (10, 20, 1_000)
NAMES = st.text("Aa-_.~z0 ", min_size=1, max_size=4)
OFFSETS_MS = st.sampled_from([-5, 0, 0, 0, 1, 9, 10, 11, 20, 999, 1_000, 1_001])
MESSAGES = st.dictionaries(NAMES, st.tuples(st.sampled_from(SHOWN_STATES), OFFSETS_MS), max_size=30)


def put(world: World, messages: dict[str, tuple[Any, int]]) -> None:
    for name, (state, offset_ms) in messages.items():
        world.command("ZADD", index(world, name, state - 1), BORN_MS + offset_ms, name)


def index(world: World, name: str, at: int) -> str:
    keys = world.records.keys
    return keys.indexes(world.topic, keys.bucket(name))[at]


def page(world: World, states: str, *, limit: int, cursor: Entry | None, window: tuple[int, int]) -> list[Entry]:
    low_ms, high_ms = window
    return world.do(
        pages.page(
            world.store,
            world.records,
            world.topic,
            states=states,
            due_from_ms=low_ms,
            due_to_ms=high_ms,
            cursor=cursor,
            limit=limit,
        )
    )


def all_pages(world: World, states: str, *, limit: int, window: tuple[int, int]) -> Sequence[Entry]:
    found: list[Entry] = []
    while entries := page(world, states, limit=limit, cursor=found[-1] if found else None, window=window):
        assert len(entries) <= limit
        found += entries
    return found


@pytest.fixture(scope="module", params=[1, 4], ids=["1 bucket", "4 buckets"])
def world(redis_node: RedisNode, request: pytest.FixtureRequest) -> Any:
    with connected_store(redis_node) as (run, store):
        yield World(run, store, buckets=request.param)


QUICK = examples(25)


@QUICK
@given(
    messages=MESSAGES,
    states=st.sets(st.sampled_from(SHOWN_STATES), min_size=1),
    limit=st.integers(1, 8),
    window=st.tuples(OFFSETS_MS, OFFSETS_MS),
)
def test_pages_give_each_id_once_and_in_order_with_any_limit(
    world: World, messages: dict[str, tuple[Any, int]], states: set[Any], limit: int, window: tuple[int, int]
) -> None:
    world.clear()
    put(world, messages)
    low_ms, high_ms = (BORN_MS + offset_ms for offset_ms in sorted(window))
    digits = "".join(str(int(state)) for state in states)

    wanted = sorted(
        (BORN_MS + offset_ms, name)
        for name, (state, offset_ms) in messages.items()
        if state in states and low_ms <= BORN_MS + offset_ms <= high_ms
    )
    assert all_pages(world, digits, limit=limit, window=(low_ms, high_ms)) == wanted


@QUICK
@given(messages=MESSAGES, at=OFFSETS_MS, name=NAMES, limit=st.integers(1, 8))
def test_a_cursor_works_after_its_message_is_gone(
    world: World, messages: dict[str, tuple[Any, int]], at: int, name: str, limit: int
) -> None:
    world.clear()
    put(world, messages)
    cursor = (BORN_MS + at, name)
    every = sorted((BORN_MS + offset_ms, name) for name, (_, offset_ms) in messages.items())

    wanted = [entry for entry in every if entry > cursor][:limit]
    assert page(world, "1234567", limit=limit, cursor=cursor, window=(0, 2**53)) == wanted


@QUICK
@given(messages=MESSAGES, forgotten=st.sets(NAMES))
def test_counts_agree_with_a_plain_count(
    world: World, messages: dict[str, tuple[Any, int]], forgotten: set[str]
) -> None:
    world.clear()
    put(world, messages)
    for name in messages:
        world.command("ZADD", index(world, name, FORGET), BORN_MS if name in forgotten else BORN_MS + 1, name)
    (counts,) = world.do(pages.counts(world.store, world.records, [world.topic], edges_ms=EDGES_MS))

    left = [(state, offset_ms) for name, (state, offset_ms) in messages.items() if name not in forgotten]
    by_state = Counter(state.label for state, _ in left)
    waiting = sorted(offset_ms for state, offset_ms in left if state.label == "waiting")
    cuts = [0, *(bisect_left(waiting, edge) for edge in (0, *EDGES_MS)), len(waiting)]
    ready = (offset_ms for state, offset_ms in left if state.label == "ready")
    assert counts.by_state == [by_state[name] for name in INDEXES]
    assert counts.by_due == [high - low for low, high in pairwise(cuts)]
    assert counts.oldest_waiting_ms == max(0, -min(waiting, default=0))
    assert counts.oldest_ready_ms == max(0, -min(ready, default=0))


class Collating(RedisNode):
    """A Redis server whose locale sorts `a` before `B`."""

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "LOCPATH": str(self.data_dir), "LC_ALL": "en_US.UTF-8"}


def test_pages_are_sorted_by_bytes_in_any_locale_of_the_server(local_dir: Path) -> None:
    folder = local_dir / "collating"
    folder.mkdir()
    localedef = ["localedef", "-i", "en_US", "-f", "UTF-8", str(folder / "en_US.UTF-8")]
    if run_program(localedef, check=False, capture_output=True).returncode:
        pytest.skip("the sources of the locale en_US are not installed")
    with Collating(folder) as node, connected_store(node) as (run, store):
        world = World(run, store)
        assert world.command("EVAL", "return 'a' < 'B' and 1 or 0", 0) == 1
        messages = dict.fromkeys(("B", "a", "C", "b", "A", "c"), (SHOWN_STATES[0], 0))
        put(world, messages)

        found = all_pages(world, "1", limit=2, window=(0, 2**53))
        assert [name for _, name in found] == ["A", "B", "C", "a", "b", "c"]


LABELLED = st.dictionaries(
    NAMES,
    st.tuples(
        st.sampled_from(SHOWN_STATES),
        OFFSETS_MS,
        st.fixed_dictionaries({}, optional={"a": st.sampled_from("12"), "b.c": st.sampled_from(["1", "="])}),
    ),
    max_size=30,
)


@QUICK
@given(
    messages=LABELLED,
    wanted=st.sampled_from([{}, {"a": "1"}, {"b.c": "="}, {"a": "2", "b.c": "1"}]),
    states=st.sets(st.sampled_from(SHOWN_STATES), min_size=1),
    prefix=st.sampled_from(["", "", "a", "~"]),
    order=st.sampled_from(list(Order)),
    limit=st.integers(1, 4),
    window=st.tuples(OFFSETS_MS, OFFSETS_MS),
)
def test_parts_give_what_matches_in_both_orders(
    world: World,
    *,
    messages: dict[str, tuple[Any, int, dict[str, str]]],
    wanted: dict[str, str],
    states: set[Any],
    prefix: str,
    order: Order,
    limit: int,
    window: tuple[int, int],
) -> None:
    world.clear()
    put(world, {name: (state, offset_ms) for name, (state, offset_ms, _) in messages.items()})
    for name, (_, offset_ms, labels) in messages.items():
        for key, value in labels.items():
            world.command("ZADD", index(world, name, LABELS), 0, f"{key}={value}\n{BORN_MS + offset_ms:013}{name}")
    if messages:
        # The entry of a record that is lost.
        world.command("ZADD", index(world, "a", LABELS), 0, f"a=1\n{BORN_MS:013}lost")
    low_ms, high_ms = (BORN_MS + offset_ms for offset_ms in sorted(window))

    found = []
    for bucket in range(world.records.keys.buckets):
        cursor, looked = None, limit
        while looked == limit:
            build = partial(world.records.labelled, labels=packed(wanted)) if wanted else world.records.page
            call = build(
                world.topic,
                bucket,
                states="".join(str(int(state)) for state in states),
                due_from_ms=low_ms,
                due_to_ms=high_ms,
                cursor=cursor,
                limit=limit,
                order=order,
                prefix=prefix,
            )
            looked, cursor, entries = world.run([call])[0]
            assert looked <= limit
            assert entries == sorted(entries, reverse=order is Order.DESC)
            found += entries

    assert sorted(found) == sorted(
        (BORN_MS + offset_ms, name, state)
        for name, (state, offset_ms, labels) in messages.items()
        if state in states
        and low_ms <= BORN_MS + offset_ms <= high_ms
        and name.startswith(prefix)
        and wanted.items() <= labels.items()
    )
