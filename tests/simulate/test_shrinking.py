"""Shrinks plans without a simulation, then one with a planted defect."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulate.plan import Plan, Step
from tests.simulate.shrinking import kinds, shrunk
from tests.simulate.store import COMPILER, NO_COMPILER

PROJECT = Path(__file__).parent.parent.parent
FAULTS = tuple(Step(number, number * 2.0, "freeze a bridge") for number in range(12))
LOAD = tuple(Step(number, number * 0.3, "producers single") for number in range(150))
DRAWN = Plan(seed=7, seconds=60.0, load=LOAD, faults=FAULTS)


def _numbers(plan: Plan) -> tuple[set[int], set[int]]:
    return {step.number for step in plan.faults or ()}, {step.number for step in plan.load or ()}


def test_smallest_plan_has_only_the_steps_that_matter() -> None:
    asked: list[Plan] = []

    def breaks(plan: Plan) -> bool:
        asked.append(plan)
        faults, actions = _numbers(plan)
        return 4 in faults and {17, 140} <= actions

    smallest = shrunk(DRAWN, breaks, most_runs=100)
    assert _numbers(smallest) == ({4}, {17, 140})
    assert len(asked) < 60
    assert smallest.load == (LOAD[17], LOAD[140])  # with their moments and numbers, so they draw the same


def test_search_ends_after_its_runs_with_the_smallest_plan_so_far() -> None:
    asked: list[Plan] = []

    def breaks(plan: Plan) -> bool:
        asked.append(plan)
        return {17, 140} <= _numbers(plan)[1]

    smallest = shrunk(DRAWN, breaks, most_runs=8)
    assert len(asked) == 8
    assert breaks(smallest)
    assert 2 < len(smallest.load or ()) < len(LOAD)


def test_plan_is_read_as_it_was_written() -> None:
    assert Plan.read(json.loads(json.dumps(DRAWN.written()))) == DRAWN
    assert Plan.read(Plan(seed=1, seconds=2.0, faults=()).written()) == Plan(seed=1, seconds=2.0, faults=())


def test_kind_of_a_finding_has_no_message_and_no_moment() -> None:
    findings = [
        "lost single-3: 12 sending",
        "log of 4: error event=loop.failed loop=audit",
        "a bridge refused to start: x",
    ]
    assert kinds(findings) == {"lost", "loop.failed", "a"}


@pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
@pytest.mark.timeout(600)
def test_plan_with_a_planted_defect_becomes_small() -> None:
    plan = Plan(seed=15, seconds=20.0, load=LOAD[:12], faults=FAULTS[1:3])
    planted = ("--planted", "the copy of an ended message is no ghost", "--plan", json.dumps(plan.written()))
    command = [sys.executable, "-m", "tests.simulate", *planted, "--shrink"]
    ran = subprocess.run(command, cwd=PROJECT, check=False, capture_output=True, text=True)
    found = json.loads(ran.stdout)
    kept = json.loads(found["kept"])

    assert kept["broke"] == "life"
    assert found["found"][0].startswith(kept["broke"])
    assert Plan.read(kept["plan"]) == replace(plan, load=(), faults=())  # the parts of the load that no seed draws
