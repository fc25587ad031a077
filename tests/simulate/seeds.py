"""Runs several simulations, each in a process of its own, on one private Redis."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

from tests.explore.planted import Planted
from tests.simulate.plan import Plan
from tests.simulate.planted import planted_here
from tests.simulate.run import Outcome, Simulation
from tests.simulate.store import PrivateRedis

_FOLDER: Final = Path(".local/simulate")
_SHOWN: Final = 5  # findings of a seed; its trace has all
_WIDTH: Final = 200  # characters of a finding


def simulate(plans: Iterable[Plan]) -> dict[str, Any]:
    """Simulates each plan. Returns the figures; `broken` has the seeds that broke a promise, with their traces."""
    found: dict[str, Any] = {"seeds": {}, "broken": {}}
    with _redis() as redis:
        for plan in plans:
            seed, outcome = plan.seed, _forked(plan, redis)
            says = outcome.broken[0][:100] if outcome.broken else "no promise broke"
            print(f"seed {seed}: {says}", file=sys.stderr, flush=True)
            found["seeds"][seed] = {"digest": outcome.digest, **outcome.figures}
            if outcome.broken:
                found["broken"][seed] = {"trace": str(_trace(seed)), "found": outcome.broken[:_SHOWN]}
    return found


def search(defects: Iterable[Planted], plans: Sequence[Plan]) -> dict[str, Any]:
    """Simulates with each defect until a seed breaks a promise. Returns the seed and what broke by the defect's name;
    None: no seed found it."""
    found: dict[str, Any] = {}
    with _redis() as redis:
        for defect in defects:
            found[defect.name] = None
            for plan in plans:
                outcome = _forked(plan, redis, defect)
                if outcome.broken:
                    found[defect.name] = {"seed": plan.seed, "found": outcome.broken[0][:_WIDTH]}
                    break
            print(f"{defect.name}: {found[defect.name]}", file=sys.stderr, flush=True)
    return found


@contextmanager
def _redis() -> Iterator[PrivateRedis]:
    with tempfile.TemporaryDirectory(prefix="delaybridge-simulate-") as folder:
        redis = PrivateRedis(Path(folder))
        redis.start()
        try:
            yield redis
        finally:
            redis.kill()


def _trace(seed: int) -> Path:
    return _FOLDER.resolve() / f"seed-{seed}.trace"


def _forked(plan: Plan, redis: PrivateRedis, defect: Planted | None = None) -> Outcome:
    """Runs a simulation in a child, as each one starts with the same state of all modules."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            with nullcontext() if defect is None else planted_here(defect):
                simulation = Simulation(plan, redis)
                outcome = simulation.run()
            trace = simulation.stage.trace
            trace.write(_trace(plan.seed))
            with os.fdopen(writing, "wb") as file:
                pickle.dump(outcome, file)
            code = 0
        finally:
            os._exit(code)  # what dead processes would still run stays undone
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        data = file.read()
    os.waitpid(child, 0)
    return Outcome(**vars(pickle.loads(data))) if data else Outcome(plan, broken=["the simulation's process died"])
