"""How much each run does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """Counts are messages. `judged`: the figures may be held against the goals, which are meant for the full size."""

    rate_per_s: int = 500  # of the open loop
    lateness_s: float = 20
    backlog: int = 1_000_000
    instant: int = 10_000
    sends_s: float = 10
    sends_warm_s: float = 2
    checkpoint: int = 30_000
    memory: int = 50_000
    cycle: int = 20_000
    peer_s: float = 10
    judged: bool = True


QUICK: Final = Size(
    rate_per_s=100,
    lateness_s=2,
    backlog=2_000,
    instant=200,
    sends_s=0.5,
    sends_warm_s=0.2,
    checkpoint=400,
    memory=1_000,
    cycle=300,
    peer_s=1,
    judged=False,
)
"""Everything small: shows that all runs work, and says nothing of the figures."""
