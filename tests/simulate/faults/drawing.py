"""Draws which faults come when.

Each seed has a few of the kinds, so that the same faults meet again and again. After some faults the promises allow so
much that they would hide others: when Redis forgets, when a clock steps, when a queue is deleted. A seed has the faults
of one of these groups, or, half of the seeds, of none.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, cycle, islice
from random import Random
from typing import Final

from tests.history import History
from tests.simulate.faults.bridges import BridgeFaults
from tests.simulate.faults.clocks import ClockFaults
from tests.simulate.faults.network import NetworkFaults
from tests.simulate.faults.queues import QueueFaults
from tests.simulate.faults.rabbitmq import RabbitFaults
from tests.simulate.faults.redis import RedisFaults
from tests.simulate.faults.target import Fault
from tests.simulate.mix import Mix, some
from tests.simulate.plan import Step, StepRandom, Steps, follow
from tests.simulate.stage import Stage

_FIRST_S: Final = (2.0, 6.0)
_TARGETS: Final = (BridgeFaults, NetworkFaults, RedisFaults, ClockFaults, RabbitFaults, QueueFaults)
_GROUPS: Final[tuple[tuple[str, ...], ...]] = (
    ("empty Redis", "fail over Redis"),
    ("set Redis' clock", "set the bridges' clock"),
    ("delete queues",),
    (),
    (),
    (),
)
_SHARE: Final = 3  # a group comes as often as every third of the other kinds


class Faults:
    """The faults of a run. `counts`: by name, how often each came."""

    def __init__(self, stage: Stage, histories: Sequence[History], mix: Mix) -> None:
        self._stage = stage
        self._mix = mix
        random = StepRandom(stage.random("faults of no step"))
        self.counts: dict[str, int] = {}
        self._kinds: dict[str, Fault] = {}
        for target in _TARGETS:
            self._kinds.update(target(stage, random, histories).kinds)

    def drawn(self, seconds: float) -> Steps:
        """Draws the faults of so many seconds."""
        random = self._stage.random("faults")
        names = self._some(random)
        steps: list[Step] = []
        at_s = random.uniform(*_FIRST_S)
        while names and at_s < seconds:
            steps.append(Step(len(steps), at_s, random.choice(names)))
            at_s += random.uniform(*self._mix.apart_s)
        return tuple(steps)

    def _some(self, random: Random) -> list[str]:
        """Draws the kinds of the seed, each as many times as it has chances."""
        group, grouped = random.choice(_GROUPS), {*chain(*_GROUPS)}
        names = some(random, [name for name in self._kinds if name not in grouped], self._mix.faults)
        return [*names, *islice(cycle(group), max(len(group), len(names) // _SHARE))]

    async def run(self, steps: Steps) -> None:
        """Disturbs by the plan. All faults have ended then."""
        await follow(steps, self._one, lambda number: self._stage.random(f"fault {number}"))

    async def _one(self, step: Step) -> None:
        self.counts[step.kind] = self.counts.get(step.kind, 0) + 1
        self._note(f"{step.number}: {step.kind} begins")
        await self._kinds[step.kind]()
        self._note(f"{step.number}: {step.kind} has ended")

    def _note(self, what: str) -> None:
        self._stage.trace.note("fault", what)
