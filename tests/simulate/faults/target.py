"""Is what the faults of all parts share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random

from tests.history import History
from tests.simulate.rabbitmq.broker import Broker
from tests.simulate.stage import Stage

Fault = Callable[[], Awaitable[None]]
"""Disturbs a part for a few seconds, and leaves it whole."""


class Target:
    """A part of the simulation that faults disturb. `histories` get to know what the promises allow after a fault."""

    def __init__(self, stage: Stage, random: Random, histories: Sequence[History]) -> None:
        self._stage = stage
        self._network = stage.network
        self._random = random
        self._histories = histories

    @contextmanager
    def _broker(self) -> Iterator[Broker]:
        """Gives the broker at the present moment, and then sends what it has to send."""
        rabbit = self._stage.rabbit
        rabbit.advance()
        yield rabbit.broker
        rabbit.settle()

    @property
    def kinds(self) -> Mapping[str, Fault]:
        """The faults by name."""
        raise NotImplementedError

    def _note(self, what: str) -> None:
        self._stage.trace.note("fault", what)

    def _place(self) -> int:
        """Draws one of the bridges."""
        return self._random.randrange(len(self._stage.processes.places))

    async def _wait(self, shortest_s: float, longest_s: float) -> None:
        await asyncio.sleep(self._random.uniform(shortest_s, longest_s))

    async def _away(self, server: str) -> None:
        """Ends all connections of a server, and lets it refuse new ones for a while."""
        self._network.refusing.add(server)
        for link in self._network.links(server=server):
            link.cut(loses=True)
        await self._wait(0.0, 3.0)
        self._network.refusing.discard(server)
