"""Simulates some tens of seeds, and checks that a seed has one trace. `make simulate` runs one seed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parent.parent.parent
SEEDS = "1-12"
NIGHTLY_SEEDS = "1-200"


def _simulate(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.simulate", *arguments]
    ran = subprocess.run(command, cwd=PROJECT, check=False, capture_output=True, text=True)
    assert ran.stdout, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_no_promise_breaks_without_faults() -> None:
    assert not _simulate("--seeds", "1-2", "--faults", "none")["broken"]


@pytest.mark.timeout(1_200)
def test_no_promise_breaks_with_faults(pytestconfig: pytest.Config) -> None:
    seeds = NIGHTLY_SEEDS if pytestconfig.getoption("--nightly") else SEEDS
    assert not _simulate("--seeds", seeds)["broken"]


def test_seed_has_one_trace() -> None:
    one, other = (_simulate("--seed", "1")["seeds"]["1"]["digest"] for _ in range(2))
    assert one == other
