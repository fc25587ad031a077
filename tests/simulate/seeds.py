"""Simulates several seeds, looks for planted defects by them, and makes the plan of a failing one smaller."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from tests.explore.planted import Planted
from tests.simulate.children import private_redises, simulated, trace_of
from tests.simulate.plan import Plan
from tests.simulate.shrinking import kinds, shrunk

_SHOWN: Final = 5  # findings of a seed; its trace has all
_WIDTH: Final = 200  # characters of a finding
_MOST_RUNS: Final = 300


def simulate(plans: Sequence[Plan], jobs: int = 0) -> dict[str, Any]:
    """Simulates each plan. Returns the figures; `broken` has the seeds that broke a promise, with their traces. `jobs`:
    how many run at the same time; 0: one for each core."""
    found: dict[str, Any] = {"seeds": {}, "broken": {}}
    with private_redises(_jobs(plans, jobs)) as redises:
        for outcome in simulated(plans, redises):
            seed = outcome.plan.seed
            _say(f"seed {seed}: {outcome.broken[0][:100] if outcome.broken else 'no promise broke'}")
            found["seeds"][seed] = {"digest": outcome.digest, **outcome.figures}
            if outcome.broken:
                found["broken"][seed] = {"trace": str(trace_of(outcome.plan)), "found": outcome.broken[:_SHOWN]}
    return found


def search(defects: Iterable[Planted], plans: Sequence[Plan], jobs: int = 0) -> dict[str, Any]:
    """Simulates with each defect until a seed breaks a promise. Returns the seed and what broke by the defect's name;
    `kinds`: all promises that broke. None: no seed found it."""
    found: dict[str, Any] = {}
    with private_redises(_jobs(plans, jobs)) as redises:
        for defect in defects:
            broken = (one for one in simulated(plans, redises, defect) if one.broken)
            first = next(broken, None)
            broken.close()
            found[defect.name] = first and {
                "seed": first.plan.seed,
                "found": first.broken[0][:_WIDTH],
                "kinds": sorted(kinds(first.broken)),
            }
            _say(f"{defect.name}: {found[defect.name]}")
    return found


def shrink(plan: Plan, defect: Planted | None = None) -> dict[str, Any]:
    """Makes the plan smaller while it breaks a promise that it broke first. Returns the smallest plan, its trace, and
    the line that keeps it as a test in `tests/simulate/kept.jsonl`. Returns nothing if no promise breaks."""
    with private_redises(1) as redises:
        (first,) = simulated((plan,), redises, defect)
        if not first.broken:
            return {}
        broke = min(kinds(first.broken[:1]))

        def breaks(smaller: Plan) -> bool:
            (outcome,) = simulated((smaller,), redises, defect)
            breaks = broke in kinds(outcome.broken)
            _say(f"{len(smaller.faults or ())} faults, {len(smaller.load or ())} actions: {broke if breaks else '-'}")
            return breaks

        smallest = shrunk(first.plan, breaks, most_runs=_MOST_RUNS)
        (last,) = simulated((smallest,), redises, defect)
    name = {} if defect is None else {"defect": defect.name}
    return {
        "broke": broke,
        "found": last.broken[:_SHOWN],
        "faults": [len(first.plan.faults or ()), len(smallest.faults or ())],
        "actions": [len(first.plan.load or ()), len(smallest.load or ())],
        "trace": str(trace_of(smallest)),
        "kept": json.dumps({"broke": broke, **name, "plan": smallest.written()}),
    }


def _jobs(plans: Sequence[Plan], jobs: int) -> int:
    return min(len(plans), jobs or os.cpu_count() or 1)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
