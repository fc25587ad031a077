"""Kills, terminates and freezes bridges."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from tests.simulate.faults.target import Fault, Target


class BridgeFaults(Target):
    @property
    def kinds(self) -> Mapping[str, Fault]:
        return {
            "kill a bridge": self._kill,
            "terminate a bridge": self._terminate,
            "freeze a bridge": self._freeze,
        }

    async def _kill(self) -> None:
        place = self._place()
        if not self._stage.processes.places[place].serves:
            return
        self._stage.processes.end(place)
        await self._wait(0.0, 2.0)
        self._stage.processes.begin(place)

    async def _terminate(self) -> None:
        place = self._place()
        process = self._stage.processes.places[place]
        if not process.serves:
            return
        stopping = process.stop()
        await asyncio.wait((stopping,), timeout=15.0)
        if self._stage.processes.places[place] is process:
            self._stage.processes.end(place)
            self._stage.processes.begin(place)

    async def _freeze(self) -> None:
        number = self._stage.processes.places[self._place()].number
        self._stage.loop.freeze(number)
        await self._wait(0.3, 4.0)
        self._stage.loop.thaw(number)
