"""Runs simulations in children of this process, several at the same time: each starts with the same modules' state."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Final

from tests.explore.planted import Planted
from tests.simulate.plan import Plan
from tests.simulate.planted import planted_here
from tests.simulate.run import Outcome, Simulation
from tests.simulate.store import PrivateRedis

_FOLDER: Final = Path(".local/simulate")

_MOST_CPU_S: Final = 60
_MOST_BYTES: Final = 4 << 30
"""The limits of one simulation: a defect may make one that never ends. A minute of load takes some 5 s and 0.2 GiB."""


def trace_of(plan: Plan) -> Path:
    """Returns the file with the trace of the seed's latest simulation."""
    return _FOLDER.resolve() / f"seed-{plan.seed}.trace"


@contextmanager
def private_redises(count: int) -> Iterator[Sequence[PrivateRedis]]:
    """Starts so many, and ends them with the context."""
    with ExitStack() as stack:
        redises = []
        for _ in range(count):
            redis = PrivateRedis(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="delaybridge-simulate-"))))
            redis.start()
            stack.callback(redis.kill)
            redises.append(redis)
        gc.collect()
        gc.freeze()  # else each child would look at all these objects again
        yield redises


def simulated(
    plans: Iterable[Plan], redises: Sequence[PrivateRedis], defect: Planted | None = None
) -> Iterator[Outcome]:
    """Simulates the plans, with a planted defect or without, as many at a time as there are Redises. Yields the
    outcomes in the order of the plans."""
    left, free = enumerate(plans), [*redises]
    running: dict[int, _Child] = {}
    done: dict[int, Outcome] = {}
    place = 0
    try:
        while True:
            while free and (one := next(left, None)) is not None:
                child = _fork(*one, free.pop(), defect)
                running[child.reading] = child
            if not running and not done:
                return
            for reading in wait([*running]) if place not in done else ():
                child = running.pop(int(str(reading)))
                done[child.place] = child.outcome()
                free.append(child.redis)
            if place in done:
                yield done.pop(place)
                place += 1
    finally:
        for child in running.values():
            child.end()


@dataclass(frozen=True, slots=True)
class _Child:
    """A running simulation. `reading`: the file descriptor that gives its outcome."""

    process: int
    reading: int
    place: int
    plan: Plan
    redis: PrivateRedis

    def outcome(self) -> Outcome:
        with os.fdopen(self.reading, "rb") as file:
            data = file.read()
        os.waitpid(self.process, 0)
        if not data:
            return Outcome(self.plan, broken=["the simulation's process died"])
        outcome: Outcome = pickle.loads(data)
        return outcome

    def end(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        self.outcome()


def _fork(place: int, plan: Plan, redis: PrivateRedis, defect: Planted | None) -> _Child:
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return _Child(process, reading, place, plan, redis)
    code = 1
    try:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_CPU, (_MOST_CPU_S, _MOST_CPU_S))
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
        with nullcontext() if defect is None else planted_here(defect):
            simulation = Simulation(plan, redis)
            outcome = simulation.run()
        simulation.stage.trace.write(trace_of(plan))
        with os.fdopen(writing, "wb") as file:
            pickle.dump(outcome, file)
        code = 0
    finally:
        os._exit(code)  # what dead processes would still run stays undone
