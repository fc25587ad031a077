"""Runs several simulations, each in a process of its own, on one private Redis."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tests.simulate.run import Outcome, Simulation
from tests.simulate.store import PrivateRedis

_FOLDER: Final = Path(".local/simulate")
_SHOWN: Final = 5  # findings of a seed; its trace has all


def simulate(seeds: Iterable[int], *, with_faults: bool, seconds: float) -> dict[str, Any]:
    """Simulates each seed. Returns the figures; `broken` has the seeds that broke a promise, with their traces."""
    found: dict[str, Any] = {"seeds": {}, "broken": {}}
    with tempfile.TemporaryDirectory(prefix="delaybridge-simulate-") as folder:
        redis = PrivateRedis(Path(folder))
        redis.start()
        try:
            for seed in seeds:
                outcome = _forked(seed, redis, with_faults=with_faults, seconds=seconds)
                says = outcome.broken[0][:100] if outcome.broken else "no promise broke"
                print(f"seed {seed}: {says}", file=sys.stderr, flush=True)
                found["seeds"][seed] = {"digest": outcome.digest, **outcome.figures}
                if outcome.broken:
                    found["broken"][seed] = {"trace": str(_trace(seed)), "found": outcome.broken[:_SHOWN]}
        finally:
            redis.kill()
    return found


def _trace(seed: int) -> Path:
    return _FOLDER.resolve() / f"seed-{seed}.trace"


def _forked(seed: int, redis: PrivateRedis, *, with_faults: bool, seconds: float) -> Outcome:
    """Runs a simulation in a child, as each one starts with the same state of all modules."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            simulation = Simulation(seed, redis, with_faults=with_faults, seconds=seconds)
            outcome = simulation.run()
            trace = simulation.stage.trace
            trace.write(_trace(seed))
            with os.fdopen(writing, "wb") as file:
                pickle.dump(outcome, file)
            code = 0
        finally:
            os._exit(code)  # what dead processes would still run stays undone
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        data = file.read()
    os.waitpid(child, 0)
    return Outcome(**vars(pickle.loads(data))) if data else Outcome(seed, broken=["the simulation's process died"])
