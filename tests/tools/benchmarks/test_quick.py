"""Runs the whole benchmark in its small size, as a person starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.figures import GOALS
from benchmarks.runs import RUNS
from tests.docs.documents import PROJECT
from tests.waiting import HUNG_AFTER_S

ROWS_WITHOUT_GOAL = {
    "lateness p90",
    "lateness from schedule p99",
    "lateness cpu bridge",
    "backlog memory rabbitmq",
    "backlog disk redis by message",
    "backlog broker delivers in",
    "outage released at",
    "outage others p99",
    "cycle http",
    "cycle amqp direct cpu client",
    "peer zset, 10 ms, always single",
    "peer zset, 10 ms, always late p99",
}
SERIES = {"lateness", "memory", "peers"}


@pytest.mark.timeout(HUNG_AFTER_S)
def test_a_quick_benchmark_fills_every_row_and_judges_none(local_dir: Path, tmp_path: Path) -> None:
    figures, page = tmp_path / "figures.json", tmp_path / "page.md"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--folder", str(local_dir / "bench")]
    done = subprocess.run(
        [*command, "--json", "--json-file", str(figures), "--docs", str(page)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(figures.read_text())
    assert json.loads(done.stdout) == found
    rows = {row["row"]: row for row in found["rows"]}
    assert set(GOALS) | ROWS_WITHOUT_GOAL <= set(rows)
    assert {row["row"].split()[0] for row in found["rows"]} == {run.name for run in RUNS}
    assert {row["met"] for row in rows.values()} == {None}
    assert [name for name, row in rows.items() if "not_run" in row] == []
    assert [name for name, row in rows.items() if row["unit"] == "messages/s" and row["value"] <= 0] == []
    assert [name for name in rows if name.endswith((" early", " lost")) and rows[name]["value"] != 0] == []
    assert rows["lateness p50"]["value"] <= rows["lateness p99"]["value"]
    assert {"rabbitmq", "erlang", "redis-server", "redis", "aio-pika"} <= set(found["versions"])
    assert {series["name"] for series in found["series"]} == SERIES
    assert all(f"| {name} |" in page.read_text() for name in rows if " cpu " not in name)
    assert (tmp_path / "plots" / "cpu.svg").exists()


@pytest.mark.timeout(HUNG_AFTER_S)
def test_two_checkouts_take_turns(local_dir: Path, tmp_path: Path) -> None:
    before, after, page = tmp_path / "before.json", tmp_path / "after.json", tmp_path / "page.md"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", "lone", "--folder", str(local_dir / "bench")]
    files = ["--before", str(before), "--json-file", str(after), "--docs", str(page)]
    done = subprocess.run([*command, "--against", str(PROJECT), *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = [{row["row"] for row in json.loads(file.read_text())["rows"]} for file in (before, after)]
    assert names[0] == names[1] >= {"lone p50"}
    assert "Each run measured both, one after the other." in page.read_text()
