"""Tests the torture command, as a person starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.judging import PROMISES
from tests.torture.plan import Kind, plan
from tests.waiting import HUNG_AFTER_S

MINUTES, SEED = 20 / 60, 3


@pytest.mark.timeout(HUNG_AFTER_S)
def test_a_short_run_with_a_fault_ends_clean(local_dir: Path) -> None:
    options = {"--minutes": MINUTES, "--seed": SEED, "--rate": 40, "--folder": local_dir / "torture"}
    given = [str(part) for option in options.items() for part in option]
    command = [sys.executable, "-m", "tests.torture", "--json", *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("seed 3, 0.333333 minutes, 40 messages a second of up to 8 s, load 0, single\n")
    found = json.loads(done.stdout)
    assert found["accepted"] > 20 * 40 / 2
    assert 0 < found["delivered"] < found["accepted"]  # some are deleted
    assert {found[name] for name in PROMISES} == {0}
    assert set(found["events"]) >= {"moved", "deleted", "replayed", "unchecked", "beside", "returned", "acked"}
    planned = [fault.kind for fault in plan(SEED, MINUTES)]
    assert planned
    assert found["faults"] == {kind.value: planned.count(kind) for kind in Kind}
