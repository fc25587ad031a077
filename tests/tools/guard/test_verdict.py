"""Tests when code counts as slower than before."""

from collections.abc import Sequence

import pytest

from tests.guard.verdict import Measured, compared, table


def turns(*costs: tuple[float, float], seconds: tuple[float, float] = (1, 1)) -> Sequence[tuple[Measured, Measured]]:
    return [tuple(Measured(cost=cost, seconds=s) for cost, s in zip(pair, seconds, strict=True)) for pair in costs]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("costs", "ratio", "slower"),
    [
        ([(100, 100)] * 3, 1.0, False),
        ([(100, 50)] * 3, 2.0, False),
        ([(80, 100)] * 3, 0.8, False),
        ([(79, 100)] * 3, 0.79, True),
        # A disturbance of one turn decides nothing, whichever version it hits.
        ([(100, 100), (100, 900), (100, 100)], 1.0, False),
        ([(70, 100), (900, 100), (70, 100)], 0.7, True),
        # A machine that gets slower and slower is slower for both.
        ([(100, 100), (200, 200), (300, 300)], 1.0, False),
    ],
)
def test_code_is_slower_when_its_messages_cost_a_quarter_more(
    costs: Sequence[tuple[float, float]], ratio: float, slower: bool
) -> None:
    row = compared("a send", turns(*costs))
    assert row.cost_ratio == pytest.approx(ratio)
    assert row.slower is slower


@pytest.mark.parametrize(("seconds", "slower"), [((1, 1.9), False), ((1, 2.1), True)])
def test_code_that_costs_the_same_is_slower_when_it_takes_twice_as_long(
    seconds: tuple[float, float], slower: bool
) -> None:
    assert compared("a send", turns((100, 100), seconds=seconds)).slower is slower


def test_the_table_marks_what_is_slower() -> None:
    rows = [compared("a send", turns((100, 100))), compared("a cycle", turns((100, 200)))]
    title, send, cycle = table(rows, "us").splitlines()
    assert title.split() == ["us", "a", "message", "before", "now", "ratio", "of", "time"]
    assert send.split() == ["a", "send", "100", "100", "1.00", "1.00"]
    assert cycle.split() == ["a", "cycle", "100", "200", "0.50", "1.00", "slower"]
