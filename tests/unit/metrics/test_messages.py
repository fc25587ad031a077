"""Tests that a topic has its counter of late releases from its first release on."""

from __future__ import annotations

import pytest

from bridge.metrics.messages import LATE_MS, released
from bridge.metrics.registry import REGISTRY


@pytest.mark.parametrize(("late_ms", "late"), [(-1.0, 0.0), (LATE_MS, 0.0), (LATE_MS + 0.1, 1.0)])
def test_a_release_that_is_not_late_counts_as_none(late_ms: float, late: float) -> None:
    topic = f"late-{late_ms}"
    released(topic, late_ms)
    assert REGISTRY.get_sample_value("delaybridge_released_total", {"topic": topic}) == 1
    assert REGISTRY.get_sample_value("delaybridge_released_late_total", {"topic": topic}) == late
