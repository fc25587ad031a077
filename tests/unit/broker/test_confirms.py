"""Tests that each message of a burst gets its result, whatever the order and grouping of the broker's answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.broker.client.confirms import Confirms
from bridge.model.errors import BrokerUnavailable, Unroutable

AWAY = BrokerUnavailable("away")
ANSWERS = st.lists(st.tuples(st.integers(1, 14), st.booleans(), st.booleans()), max_size=12)


@given(st.integers(1, 4), st.integers(1, 10), ANSWERS)
async def test_first_answer_for_a_message_counts(
    before: int, count: int, answers: list[tuple[int, bool, bool]]
) -> None:
    confirms = Confirms()
    confirms.begin([f"before-{at}" for at in range(before)])
    done = confirms.begin([str(at) for at in range(count)])
    expected: dict[int, bool] = {}
    for tag, multiple, refused in answers:
        assert done.done() == (len(expected) == count)
        (confirms.refused if refused else confirms.confirmed)(tag, multiple=multiple)
        for one in range(1, tag + 1) if multiple else (tag,):
            if before < one <= before + count:
                expected.setdefault(one - before - 1, refused)

    assert done.done() == (len(expected) == count)
    assert confirms.any_refused == any(expected.values())
    refusals = [expected.get(at, True) for at in range(count)]
    assert [error is not None for error in confirms.errors(AWAY)] == refusals
    assert [error is AWAY for error in confirms.errors(AWAY)] == [at not in expected for at in range(count)]


async def test_returned_message_is_unroutable_although_it_is_confirmed() -> None:
    confirms = Confirms()
    done = confirms.begin(["a", "b"])
    confirms.returned("b", "NO_ROUTE")
    confirms.returned("of another burst", "NO_ROUTE")
    confirms.returned(None, "NO_ROUTE")
    confirms.confirmed(2, multiple=True)

    assert done.done()
    first, second = confirms.errors()
    assert first is None
    with pytest.raises(Unroutable, match="no queue takes it: NO_ROUTE"):
        raise second or AWAY


async def test_empty_burst_is_answered_at_once() -> None:
    assert Confirms().begin([]).done()
