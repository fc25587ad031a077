"""Tests percentiles, goals and rows."""

from __future__ import annotations

import pytest

from benchmarks.figures import CURVE, GOALS, Goal, Row, curve, percentile, percentiles
from benchmarks.runs import RUNS, chosen


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([7.0], 50, 7.0),
        ([7.0], 99, 7.0),
        ([1.0, 2.0], 50, 1.0),
        ([1.0, 2.0], 51, 2.0),
        (list(range(1, 101)), 50, 50),
        (list(range(1, 101)), 99, 99),
        (list(range(1, 101)), 100, 100),
        (list(range(1, 1_001)), 99, 990),
    ],
)
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(
    values: list[float], percent: float, expected: float
) -> None:
    assert percentile(values, percent) == expected


def test_percentiles_need_no_order() -> None:
    assert percentiles([3.0, 1.0, 2.0]) == {"p50": 2.0, "p90": 3.0, "p99": 3.0, "max": 3.0}


def test_percentile_of_no_values_is_an_error() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


@pytest.mark.parametrize(
    ("goal", "value", "met"),
    [
        (Goal("≤", 3), 3.0, True),
        (Goal("≤", 3), 3.01, False),
        (Goal("≥", 3_000), 3_000.0, True),
        (Goal("≥", 3_000), 2_999.0, False),
    ],
)
def test_a_goal_is_met_at_its_limit(goal: Goal, value: float, met: bool) -> None:
    assert Row("row", value, "ms", goal).met is met


def test_a_row_without_a_goal_is_neither_met_nor_missed() -> None:
    assert Row("row", 1.0, "ms").as_json() == {"row": "row", "value": 1.0, "unit": "ms", "goal": None, "met": None}


def test_a_row_that_was_not_run_says_why_and_is_not_judged() -> None:
    row = Row("row", None, "ms", Goal("≤", 3), "no node")
    assert row.as_json() == {
        "row": "row",
        "value": None,
        "unit": "ms",
        "goal": "≤ 3",
        "met": None,
        "not_run": "no node",
    }


def test_a_curve_rises_to_the_largest_value() -> None:
    points = curve([float(value) for value in range(1_000, 0, -1)])
    assert [percent for percent, _ in points] == list(CURVE)
    assert points[-1] == (100, 1_000.0)
    assert [value for _, value in points] == sorted(value for _, value in points)
    assert curve([]) == []


def test_every_goal_belongs_to_a_run() -> None:
    assert {name.split()[0] for name in GOALS} <= {run.name for run in RUNS}


def test_a_chosen_run_adds_the_run_it_is_compared_with() -> None:
    assert [run.name for run in chosen(["backlog"], own_servers=True)] == ["lateness", "backlog"]


def test_a_run_that_needs_private_servers_is_left_out_of_a_given_stack() -> None:
    assert "checkpoint" not in [run.name for run in chosen([], own_servers=False)]
    with pytest.raises(ValueError, match="checkpoint"):
        chosen(["checkpoint"], own_servers=False)


def test_an_unknown_run_is_refused() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        chosen(["nonsense"], own_servers=True)
