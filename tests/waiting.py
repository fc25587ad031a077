"""Waits for what no event announces: tests ask again after a pause, and the test's time limit ends the wait."""

from __future__ import annotations

import asyncio
from typing import Final

PAUSE_S: Final = 0.05


async def pause(seconds: float = PAUSE_S) -> None:
    """The pause between two looks. Without one, a waiting test takes the CPU from the servers it waits for."""
    await asyncio.sleep(seconds)
