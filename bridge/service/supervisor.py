"""Loops that run beside the front end for as long as the process does."""

from __future__ import annotations

import asyncio
from typing import Protocol

import structlog

from bridge.model.errors import Unavailable

log = structlog.get_logger(__name__)

_PAUSE_S = 1.0


class Loop(Protocol):
    """`state` is "ok", or why not; `run` runs for ever, and waits for what is away."""

    @property
    def name(self) -> str: ...

    @property
    def state(self) -> str: ...

    async def run(self) -> None: ...


async def supervise(loop: Loop) -> None:
    """Runs a loop, and again after a fault of ours, which is logged: what it held is with the broker still."""
    while True:
        try:
            await loop.run()
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            # What the loop waited for was cancelled, not the loop.
            log.exception("loop.failed", loop=loop.name)
        except Exception:
            log.exception("loop.failed", loop=loop.name)
        await asyncio.sleep(_PAUSE_S)


def waiting(error: Unavailable) -> str:
    """The state of a loop that waits: well still where one of several Redis servers is away, as all that is on the
    others goes on."""
    return "ok" if error.partly else f"waiting: {error}"
