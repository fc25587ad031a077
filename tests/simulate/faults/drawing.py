"""Draws which faults come when.

Each seed has some of the kinds, so that the same faults meet again and again. After some faults the promises allow so
much that they would hide others: when Redis forgets, when a clock steps, when a queue is deleted. A seed has the faults
of one of these groups, or of none.
"""

from __future__ import annotations

import asyncio
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
from tests.simulate.stage import Stage

_APART_S: Final = (1.5, 8.0)
_FIRST_S: Final = (2.0, 6.0)
_TARGETS: Final = (BridgeFaults, NetworkFaults, RedisFaults, ClockFaults, RabbitFaults, QueueFaults)
_GROUPS: Final[tuple[tuple[str, ...], ...]] = (
    ("empty Redis", "fail over Redis"),
    ("set Redis' clock", "set the bridges' clock"),
    ("delete queues",),
    (),
)
_SHARE: Final = 0.6  # of the other kinds
_TIMES: Final = 4  # a group comes as often as so many other kinds


class Faults:
    """The faults of a run. `counts`: by name, how often each came."""

    def __init__(self, stage: Stage, histories: Sequence[History]) -> None:
        self._stage = stage
        self._random: Random = stage.random("faults")
        self.counts: dict[str, int] = {}
        kinds: dict[str, Fault] = {}
        for target in _TARGETS:
            kinds.update(target(stage, self._random, histories).kinds)
        self._kinds = kinds
        self._names = self._drawn()

    def _drawn(self) -> list[str]:
        """Draws the kinds of the seed, each as many times as it has chances."""
        group, grouped = self._random.choice(_GROUPS), {*chain(*_GROUPS)}
        names = [name for name in self._kinds if name not in grouped and self._random.random() < _SHARE]
        return [*names, *islice(cycle(group), _TIMES)]

    async def run(self, seconds: float) -> None:
        """Disturbs until the time has passed. All faults have ended then."""
        loop = self._stage.loop
        end_s = loop.time() + seconds
        pause_s = self._random.uniform(*_FIRST_S)
        running: list[asyncio.Task[None]] = []
        while loop.time() + pause_s < end_s:
            await asyncio.sleep(pause_s)
            name = self._random.choice(self._names)
            self.counts[name] = self.counts.get(name, 0) + 1
            running.append(loop.create_task(self._one(name)))
            pause_s = self._random.uniform(*_APART_S)
        await asyncio.gather(*running)

    async def _one(self, name: str) -> None:
        self._note(f"{name} begins")
        await self._kinds[name]()
        self._note(f"{name} has ended")

    def _note(self, what: str) -> None:
        self._stage.trace.note("fault", what)
