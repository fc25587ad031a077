"""Cuts, holds and slows connections, and loses HTTP calls."""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulate.faults.target import Fault, Target
from tests.simulate.stage import RABBIT, REDIS


class NetworkFaults(Target):
    @property
    def kinds(self) -> Mapping[str, Fault]:
        return {
            "cut connections": self._cut,
            "partition": self._partition,
            "slow network": self._slow,
            "lose HTTP": self._lose_http,
        }

    async def _cut(self) -> None:
        server, loses = self._random.choice((RABBIT, REDIS)), self._random.random() < 0.5
        process = self._random.choice((None, self._stage.processes.places[self._place()].number))
        for link in self._network.links(server=server, process=process):
            link.cut(loses=loses)

    async def _partition(self) -> None:
        """Holds what goes between a process and a server, in one direction or both."""
        server = self._random.choice((RABBIT, REDIS))
        process = self._stage.processes.places[self._place()].number
        up, down = self._random.choice(((True, False), (False, True), (True, True)))
        self._note(f"between {process} and {server}, up {up}, down {down}")
        self._network.hanging.add((process, server))
        for link in self._network.links(server=server, process=process):
            link.hold(up=up, down=down)
        await self._wait(0.3, 5.0)
        self._network.hanging.discard((process, server))
        for link in self._network.links(server=server, process=process):
            link.hold(up=False, down=False)

    async def _slow(self) -> None:
        self._network.slow_s = self._random.choice((0.01, 0.05, 0.2))
        await self._wait(0.5, 4.0)
        self._network.slow_s = 0.0

    async def _lose_http(self) -> None:
        chance = self._random

        def fate() -> str:
            return chance.choice(("lost", "answer lost", "impatient")) if chance.random() < 0.3 else ""

        self._stage.api.fate = fate
        await self._wait(1.0, 5.0)
        self._stage.api.fate = str
