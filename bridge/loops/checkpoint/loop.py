"""Runs one lane's checkpoint: one session after another, for as long as the process lives."""

from __future__ import annotations

from typing import NoReturn

import structlog

from bridge.loops.checkpoint.batches import RETRY_MS
from bridge.loops.checkpoint.session import Session
from bridge.metrics.loops import holding
from bridge.service.context import Context
from bridge.service.health.supervisor import Status, retrying


class Checkpoint:
    """The checkpoint of one lane, which releases the due copies of the lane."""

    def __init__(self, context: Context, lane: int) -> None:
        self._context = context
        self._lane = lane
        self.status = Status(context.part_name("checkpoint"), retry_s=RETRY_MS / 1_000)

    async def run(self) -> NoReturn:
        """Runs the lane's checkpoint for ever, one session after another. While RabbitMQ or Redis is away, the loop
        tries again every half second."""
        if self._lane:
            # So every line of its log names the lane.
            structlog.contextvars.bind_contextvars(lane=self._lane)
        await retrying(self.status, self._over_a_channel)

    async def _over_a_channel(self) -> NoReturn:
        session = Session(self._context, self._lane, self.status)
        with holding(session.held):
            await session.run()
