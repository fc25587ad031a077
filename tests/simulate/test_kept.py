"""Simulates the plans that once broke a promise: no promise may break now.

`make simulate SEED=7 ARGS=--shrink` prints the line for `kept.jsonl`. A line with a planted defect shows that its plan
still breaks the promise while the defect is there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.simulate.store import COMPILER, NO_COMPILER

pytestmark = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
PROJECT = Path(__file__).parent.parent.parent
KEPT = [json.loads(line) for line in Path(__file__).with_name("kept.jsonl").read_text().splitlines()]


def _simulate(kept: dict[str, Any], *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.simulate", "--plan", json.dumps(kept["plan"]), *arguments]
    ran = subprocess.run(command, cwd=PROJECT, check=False, capture_output=True, text=True)
    assert ran.stdout, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: f"seed {kept['plan']['seed']} {kept['broke']}")
def test_kept_plan_breaks_no_promise(kept: dict[str, Any]) -> None:
    assert not _simulate(kept)["broken"]
    if defect := kept.get("defect"):
        assert kept["broke"] in _simulate(kept, "--planted", defect)[defect]["kinds"]
