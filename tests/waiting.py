"""Waits for what no event announces: tests ask again after a pause, and the test's time limit ends the wait."""

from __future__ import annotations

import asyncio
from typing import Final

PAUSE_S: Final = 0.05
HUNG_AFTER_S: Final = 1_200
"""The time limit of a test that runs a whole program. A busy machine takes some ten times as long as an idle one."""


async def pause(seconds: float = PAUSE_S) -> None:
    """The pause between two looks. Without one, a waiting test takes the CPU from the servers it waits for."""
    await asyncio.sleep(seconds)
