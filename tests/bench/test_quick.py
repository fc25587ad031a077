"""The whole benchmark, small, as a person starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.bench.figures import GOALS

ROWS_WITHOUT_GOAL = {
    "lateness p90",
    "lateness max",
    "lateness from schedule p99",
    "backlog memory rabbitmq",
    "cycle",
    "cycle cpu bridge",
    "peer tick 1 s p50",
    "peer tick 10 ms p99",
    "peer sends",
}


@pytest.mark.timeout(400)
def test_a_quick_benchmark_fills_every_row_and_judges_none(local_dir: Path, tmp_path: Path) -> None:
    figures, page = tmp_path / "figures.json", tmp_path / "page.md"
    command = [sys.executable, "-m", "bridge", "bench", "--quick", "--folder", str(local_dir / "bench")]
    done = subprocess.run(
        [*command, "--json", str(figures), "--docs", str(page)],
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(figures.read_text())
    rows = {row["row"]: row for row in found["rows"]}
    assert set(GOALS) | ROWS_WITHOUT_GOAL <= set(rows)
    assert {row["met"] for row in rows.values()} == {None}
    assert rows["lateness early"]["value"] == rows["instant early"]["value"] == 0
    assert found["versions"]["rabbitmq"]
    assert found["versions"]["redis"]
    assert all(f"| {name} |" in page.read_text() for name in rows)
