"""Runs a checkpoint for every lane: those of this process, and those of bridges with more lanes."""

from __future__ import annotations

import asyncio

import structlog

from bridge.loops.checkpoint.loop import Checkpoint
from bridge.service.context import Context
from bridge.service.supervisor import supervise


class Checkpoints:
    """Runs a `Checkpoint` for each lane that exists on the broker, also for one that is found later."""

    name = "checkpoint"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lanes = context.broker.declared.wheel.lanes
        self._checkpoints: list[Checkpoint] = []
        self._running: list[asyncio.Task[None]] = []

    @property
    def state(self) -> str:
        """The state of the first lane that is not "ok"."""
        otherwise = "ok" if self._checkpoints else "starting"
        return next((lane.state for lane in self._checkpoints if lane.state != "ok"), otherwise)

    async def run(self) -> None:
        """Runs for ever."""
        try:
            while True:
                self._lanes.changed.clear()
                await self._serve(self._lanes.count)
                await self._lanes.changed.wait()
        finally:
            await self._serve(0)

    async def _serve(self, lanes: int) -> None:
        for lane in range(len(self._checkpoints), lanes):
            checkpoint = Checkpoint(self._context, lane)
            self._checkpoints.append(checkpoint)
            self._running.append(asyncio.create_task(_run(checkpoint, lane), name=f"checkpoint of lane {lane}"))
        ended = self._running[lanes:]
        del self._checkpoints[lanes:], self._running[lanes:]
        for running in ended:
            running.cancel()
        await asyncio.gather(*ended, return_exceptions=True)


async def _run(checkpoint: Checkpoint, lane: int) -> None:
    if lane:
        # So every line of its log names the lane.
        structlog.contextvars.bind_contextvars(lane=lane)
    await supervise(checkpoint)
