"""Runs loops for as long as the process lives."""

from __future__ import annotations

import asyncio
from typing import Protocol

import structlog

from bridge.model.errors import Unavailable

log = structlog.get_logger(__name__)

_PAUSE_S = 1.0


class Loop(Protocol):
    """Work that never ends. `state`: "ok" or the reason why not. `run` waits for servers that are away."""

    @property
    def name(self) -> str: ...

    @property
    def state(self) -> str: ...

    async def run(self) -> None: ...


async def supervise(loop: Loop) -> None:
    """Runs the loop. Logs an unexpected error and starts the loop again: RabbitMQ still has the messages it held."""
    while True:
        try:
            await loop.run()
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            # Something that the loop awaited was cancelled, not the loop itself.
            log.exception("loop.failed", loop=loop.name)
        except Exception:
            log.exception("loop.failed", loop=loop.name)
        await asyncio.sleep(_PAUSE_S)


def waiting(error: Unavailable) -> str:
    """The state of a loop that waits for a server. It stays "ok" if one of several Redis servers is away: the work on
    the others goes on."""
    return "ok" if error.partly else f"waiting: {error}"
