"""Simulates a dozen seeds, and checks that a seed has one trace. `make simulate` runs one seed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.simulate.store import COMPILER, NO_COMPILER

pytestmark = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
PROJECT = Path(__file__).parent.parent.parent
FEW = ("--seeds", "1-12", "--seconds", "15")
NIGHTLY = ("--seeds", "1-200")
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


@pytest.mark.timeout(3_600)
def test_no_promise_breaks_with_faults(pytestconfig: pytest.Config) -> None:
    assert not _simulate(*(NIGHTLY if pytestconfig.getoption("--nightly") else FEW))["broken"]


def test_seed_has_one_trace_at_any_addresses_of_memory() -> None:
    one, other = (
        _simulate("--seed", "11", "--seconds", "15", PYTHONMALLOC=allocator)["seeds"]["11"]["digest"]
        for allocator in ("pymalloc", "malloc")
    )
    assert one == other


def test_planted_defect_is_found() -> None:
    name = "the copy of an ended message is no ghost"
    assert _simulate("--planted", name, "--seeds", "1-2", "--seconds", "15")[name]


@pytest.mark.timeout(3_600)
def test_every_planted_defect_is_found(pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("--nightly"):
        pytest.skip("the nightly run looks for all of them")
    found = _simulate("--planted", "--seeds", TO_FIND, "--seconds", "20")
    assert [name for name, first in found.items() if first is None] == []
