"""Runs one lane's checkpoint: a session after the other, for as long as the process lives."""

from __future__ import annotations

import asyncio

import structlog

from bridge.loops.checkpoint.batches import RETRY_MS
from bridge.loops.checkpoint.session import Session
from bridge.metrics.loops import holding
from bridge.model.errors import Unavailable
from bridge.service.context import Context

log = structlog.get_logger(__name__)


class Checkpoint:
    """The loop of one lane. `state` is "ok", "starting", or names the server that it waits for."""

    name = "checkpoint"

    def __init__(self, context: Context, lane: int) -> None:
        self._context = context
        self._lane = lane
        self._session = Session(context, lane)

    @property
    def state(self) -> str:
        return self._session.state

    async def run(self) -> None:
        """Runs for ever. While RabbitMQ or Redis is away, it tries again every half second."""
        while True:
            self._session = Session(self._context, self._lane, state=self.state)
            try:
                with holding(self._session.held):
                    await self._session.run()
            except Unavailable as error:
                self._session.state = f"waiting: {error}"
                log.warning("checkpoint.waiting", reason=str(error))
            await asyncio.sleep(RETRY_MS / 1_000)
