"""Tests rates and lateness between two moments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from bridge.metrics import flow, messages
from bridge.metrics.flow import FlowCounts


def counted(at_s: float, released: int, *, late: int = 0, quick: int | None = None) -> FlowCounts:
    """`quick`: how many of the releases took at most 10 ms; the others took at most a second."""
    by_step: dict[str, Mapping[str, float]] = {step: {} for step in flow.STEPS}
    by_step |= {"released": {"orders": released}, "released_late": {"orders": late}}
    return FlowCounts(
        at_s, by_step, {0.01: released if quick is None else quick, 1.0: released, float("inf"): released}
    )


def test_rates_are_by_second_and_never_negative() -> None:
    assert flow.rates(counted(10, 100), counted(12, 150))["released"] == {"orders": 25.0}
    assert flow.rates(counted(10, 100), counted(12, 3))["released"] == {"orders": 0.0}  # the process was started again


def test_lateness_is_the_bound_of_a_bucket() -> None:
    late = flow.lateness(counted(0, 0), counted(60, 200, late=1, quick=199))
    assert (late.released, late.late, late.p50_ms, late.p99_ms, late.over_s) == (200, 1, 10.0, 10.0, 60)
    assert flow.lateness(counted(0, 0), counted(60, 100, quick=90)).p99_ms == 1_000.0
    assert flow.lateness(counted(0, 5), counted(60, 5)).p50_ms is None


async def test_counts_of_processes_are_summed() -> None:
    messages.released("flow-orders", 2.0)
    here: Mapping[str, Any] = await flow.counted_here()
    twice = flow.summed(1.0, [here, None, here])
    once = here["by_step"]["released"]
    assert once
    assert twice.by_step["released"] == {topic: 2 * number for topic, number in once.items()}
    assert twice.lags[float("inf")] == pytest.approx(2 * dict(here["lags"])["inf"])
