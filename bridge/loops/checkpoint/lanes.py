"""The checkpoint of every lane: those this process publishes to, and those that others have left or use."""

from __future__ import annotations

import asyncio

import structlog

from bridge.loops.checkpoint.loop import Checkpoint
from bridge.service.context import Context
from bridge.service.supervisor import supervise


class Checkpoints:
    """Runs a `Checkpoint` for each lane that stands on the broker, also for one that is found later."""

    name = "checkpoint"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._found = context.broker.declared.lanes
        self._lanes: list[Checkpoint] = []
        self._running: list[asyncio.Task[None]] = []

    @property
    def state(self) -> str:
        """Of the first lane that is not well."""
        return next((lane.state for lane in self._lanes if lane.state != "ok"), "ok" if self._lanes else "starting")

    async def run(self) -> None:
        """Runs for ever."""
        try:
            while True:
                self._found.changed.clear()
                await self._serve(self._found.standing.lanes)
                await self._found.changed.wait()
        finally:
            await self._serve(0)

    async def _serve(self, lanes: int) -> None:
        for lane in range(len(self._lanes), lanes):
            checkpoint = Checkpoint(self._context, lane)
            self._lanes.append(checkpoint)
            self._running.append(asyncio.create_task(_run(checkpoint, lane), name=f"checkpoint of lane {lane}"))
        ended = self._running[lanes:]
        del self._lanes[lanes:], self._running[lanes:]
        for running in ended:
            running.cancel()
        await asyncio.gather(*ended, return_exceptions=True)


async def _run(checkpoint: Checkpoint, lane: int) -> None:
    if lane:
        # Each line of its log says so.
        structlog.contextvars.bind_contextvars(lane=lane)
    await supervise(checkpoint)
