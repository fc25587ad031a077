"""Runs a checkpoint for every lane: the lanes of this process, and further lanes that exist on the broker."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from bridge.loops.checkpoint.loop import Checkpoint
from bridge.service.context import Context
from bridge.service.health.supervisor import Joined, Status, retrying


class Checkpoints:
    """Runs a `Checkpoint` for each lane that exists on the broker, also for lanes that are found later."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lanes = context.broker.declared.wheel.lanes
        self._checkpoints: list[Checkpoint] = []
        self._running: list[asyncio.Task[NoReturn]] = []
        self._following = Status(context.part_name("checkpoint"))
        self.status = Joined(
            self._following.name, lambda: (self._following, *(lane.status for lane in self._checkpoints))
        )

    async def run(self) -> NoReturn:
        """Runs the checkpoints of all lanes for ever."""
        try:
            await retrying(self._following, self._follow)
        finally:
            await self._serve(0)

    async def _follow(self) -> float:
        """Runs the checkpoints of all lanes until the number of lanes changes."""
        self._lanes.changed.clear()
        await self._serve(self._lanes.count)
        self._following.working()
        await self._lanes.changed.wait()
        return 0.0

    async def _serve(self, lanes: int) -> None:
        for lane in range(len(self._checkpoints), lanes):
            checkpoint = Checkpoint(self._context, lane)
            self._checkpoints.append(checkpoint)
            self._running.append(asyncio.create_task(checkpoint.run(), name=f"checkpoint of lane {lane}"))
        ended = self._running[lanes:]
        del self._checkpoints[lanes:], self._running[lanes:]
        for running in ended:
            running.cancel()
        await asyncio.gather(*ended, return_exceptions=True)
