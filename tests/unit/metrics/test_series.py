"""Tests that the number of series is bounded. A registry never shrinks, so that of another process is counted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[3]
MOST = 7_000


def test_a_thousand_topics_have_at_most_seven_thousand_series() -> None:
    page = subprocess.run(
        [sys.executable, "-m", "tests.unit.metrics.many_topics"],
        capture_output=True,
        text=True,
        check=True,
        cwd=PROJECT,
    ).stdout
    series = [line for line in page.splitlines() if not line.startswith("#")]

    assert len({line.rpartition(" ")[0] for line in series}) == len(series)
    assert sum('topic="orders-0"' in line for line in series) == 27
    assert 'delaybridge_accepted_total{topic="_other"} 800.0' in series
    assert len(series) <= MOST
