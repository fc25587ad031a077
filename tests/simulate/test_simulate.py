"""Simulates a few seeds, and checks that a seed has one trace. `make simulate` runs one seed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.simulate.store import COMPILER, NO_COMPILER

pytestmark = [pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER), pytest.mark.timeout(3_600)]
PROJECT = Path(__file__).parent.parent.parent
TO_FIND = "1-300"
"""The seeds in which the nightly run looks for each planted defect."""


def _simulate(*arguments: str, **variables: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.simulate", *arguments]
    ran = subprocess.run(
        command, cwd=PROJECT, check=False, capture_output=True, text=True, env={**os.environ, **variables}
    )
    assert ran.stdout, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_no_promise_breaks_without_faults() -> None:
    assert not _simulate("--seed", "1", "--seconds", "20", "--faults", "none")["broken"]


@pytest.fixture(scope="module")
def seconds(pytestconfig: pytest.Config) -> str:
    return "60" if pytestconfig.getoption("--nightly") else "15"


@pytest.fixture(scope="module")
def found(pytestconfig: pytest.Config, seconds: str) -> dict[str, Any]:
    """What was found with all seeds of the run."""
    return _simulate("--seeds", "1-200" if pytestconfig.getoption("--nightly") else "1-12", "--seconds", seconds)


def test_no_promise_breaks_with_faults(found: dict[str, Any]) -> None:
    assert not found["broken"]


def test_seed_has_one_trace_at_any_addresses_of_memory(found: dict[str, Any], seconds: str) -> None:
    again = _simulate("--seed", "8", "--seconds", seconds, PYTHONMALLOC="malloc")
    assert again["seeds"]["8"]["digest"] == found["seeds"]["8"]["digest"]


def test_every_planted_defect_is_found(pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("--nightly"):
        pytest.skip("the nightly run looks for all of them")
    found = _simulate("--planted", "--seeds", TO_FIND, "--seconds", "20")
    assert [name for name, first in found.items() if first is None] == []
