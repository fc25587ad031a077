"""Says what a simulation does: which actions of the load and which faults come when.

Each step has random numbers of its own. So in a plan without some steps, the other steps draw the same numbers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import asdict, astuple, dataclass
from random import Random
from typing import Any, Final, TypeAlias

from benchmarks.loops import together

_CHANCE: Final[ContextVar[Random]] = ContextVar("chance")


@dataclass(frozen=True, slots=True)
class Step:
    """One action or fault, `at_s` seconds after the first ones may begin. Its random numbers come from `number`."""

    number: int
    at_s: float
    kind: str


Steps: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one simulation does. `seconds`: how long load and faults last. `load`, `faults`: their steps; None: the seed
    draws them."""

    seed: int
    seconds: float
    load: Steps | None = None
    faults: Steps | None = None

    def written(self) -> dict[str, Any]:
        """Returns the plan for JSON. A step is a list of its number, moment and kind."""
        return asdict(self) | {
            name: None if steps is None else [[*astuple(step)] for step in steps]
            for name, steps in (("load", self.load), ("faults", self.faults))
        }

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Plan:
        """Returns the plan that `written` has returned."""
        steps = {
            name: None if written[name] is None else tuple(Step(*one) for one in written[name])
            for name in ("load", "faults")
        }
        return cls(seed=written["seed"], seconds=written["seconds"], **steps)


class StepRandom(Random):
    """The random numbers of the step to which the running task belongs. Outside of steps, those of `otherwise`."""

    def __init__(self, otherwise: Random) -> None:
        self._otherwise = otherwise
        super().__init__(0)

    def random(self) -> float:
        return _CHANCE.get(self._otherwise).random()

    def getrandbits(self, bits: int, /) -> int:
        return _CHANCE.get(self._otherwise).getrandbits(bits)


async def follow(
    steps: Iterable[Step], work: Callable[[Step], Awaitable[None]], random: Callable[[int], Random]
) -> None:
    """Begins each step at its moment, and returns when all have ended. `random`: a step's random numbers."""

    async def one(step: Step) -> None:
        _CHANCE.set(random(step.number))
        await asyncio.sleep(step.at_s)
        await work(step)

    async with together() as group:
        for step in steps:
            group.create_task(one(step))
