"""Tests that a merge of many indexes gives what sorting all entries gives, in both orders, from any cursor."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.filter import Found, Order
from bridge.model.message import State
from bridge.service.pools.merging import A_ROUND, CALL_COST, MOST_COST, Ask, Index, Merge, Position, position_of
from bridge.store.messages.parts import Part

Stored = dict[Index, list[Found]]
"""The entries of each index, in its order."""

INDEXES = [Index(topic, bucket) for topic in ("a", "ab", "b/c") for bucket in (0, 1)]
ENTRIES = st.sets(
    st.tuples(st.sampled_from(INDEXES), st.sampled_from(["1", "11", "2", "~", " "]), st.integers(0, 3)), max_size=25
)
ORDERS = st.sampled_from(list(Order))


def stored(entries: set[tuple[Index, str, int]]) -> Stored:
    by_index: Stored = {index: [] for index in INDEXES}
    for index, message_id, due_ms in entries:
        by_index[index].append(Found(index.topic, f"{message_id}{index.bucket}", due_ms, State.WAITING))
    return {index: sorted(found, key=_in_index) for index, found in by_index.items()}


def _in_index(entry: Found) -> tuple[int, str]:
    return entry.due_ms, entry.id


def answer(found: Stored, order: Order, ask: Ask, prefix: str) -> Part:
    """What lua/page.lua answers."""
    entries = found[ask.index]
    if order is Order.DESC:
        end = len(entries) if ask.cursor is None else bisect_left(entries, ask.cursor, key=_in_index)
        behind = entries[max(0, end - ask.limit) : end][::-1]
    else:
        start = 0 if ask.cursor is None else bisect_right(entries, ask.cursor, key=_in_index)
        behind = entries[start : start + ask.limit]
    last = (behind[-1].due_ms, behind[-1].id) if behind else (0, "")
    matching = [(one.due_ms, one.id, one.state) for one in behind if one.id.startswith(prefix)]
    return Part(len(behind), last, matching)


def page(
    found: Stored, order: Order, behind: Position | None, limit: int, *, prefix: str = "", a_call: int = 3
) -> tuple[list[Found], Merge, int]:
    """The items of a page, its merge, and the number of calls."""
    merge = Merge(found, order, behind, a_call=a_call)
    items: list[Found] = []
    calls = 0
    while len(items) < limit and not merge.is_over:
        asks = merge.asks(limit - len(items))
        for ask in asks:
            merge.add(ask, answer(found, order, ask, prefix))
        taken = merge.take(limit - len(items))
        items += taken
        calls += len(asks)
        if not (asks or taken):
            break
    return items, merge, calls


@given(entries=ENTRIES, order=ORDERS, limit=st.integers(1, 7), prefix=st.sampled_from(["", "1", "11", "3"]))
def test_pages_give_each_entry_once_and_in_order(
    entries: set[tuple[Index, str, int]], order: Order, limit: int, prefix: str
) -> None:
    found = stored(entries)
    seen: list[Found] = []
    behind, is_over = None, False
    while not is_over:
        items, merge, _ = page(found, order, behind, limit, prefix=prefix)
        assert len(items) <= limit
        seen += items
        behind, is_over = merge.position, merge.is_over

    every = [one for entries_of_one in found.values() for one in entries_of_one if one.id.startswith(prefix)]
    assert seen == sorted(every, key=position_of, reverse=order is Order.DESC)


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("topics", [1, 10, 1_000, 3_000])
@pytest.mark.parametrize("by_topic", [False, True], ids=["mixed", "one topic after the other"])
@pytest.mark.parametrize("prefix", ["", "none"], ids=["all match", "none match"])
def test_a_page_looks_at_few_entries_however_many_messages_wait(
    order: Order, topics: int, by_topic: bool, prefix: str
) -> None:
    each = 30_000 // topics
    found = {
        Index(f"t{topic:04d}", 0): [
            Found(f"t{topic:04d}", f"{at:05d}", topic * each + at if by_topic else at * topics + topic, State.WAITING)
            for at in range(each)
        ]
        for topic in range(topics)
    }
    limit = 100 if topics > 1_000 else 200
    items, merge, calls = page(found, order, None, limit, a_call=500, prefix=prefix)

    assert len(items) == (0 if prefix else limit)
    assert not merge.is_over
    assert calls <= topics + MOST_COST // CALL_COST
    assert merge.looked <= max(topics, A_ROUND) + MOST_COST
