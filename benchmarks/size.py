"""Defines the size of each run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """The size of the runs. Counts are messages. `judged`: the goals, which are for the full size, apply."""

    rate_per_s: int = 500  # of the open loop
    lateness_s: float = 20
    longest_ms: int = 5_000  # delay, the shortest being 1 s
    slow_rate_per_s: int = 50
    fast_rate_per_s: int = 2_000
    fast_s: float = 10
    backlog: int = 1_000_000
    backlog_parts: int = 5  # memory is measured after each part
    settles_s: float = 3  # the wait before each measurement of memory
    instant: int = 10_000
    lone_rate_per_s: int = 20
    lone_s: float = 10
    sends_s: float = 5
    warm_s: float = 2
    checkpoint: int = 30_000
    outage: int = 100_000
    memory: int = 300_000
    cycle_s: float = 6
    cycle_window: int = 20_000  # sent and not yet acked
    pulled: int = 30_000  # messages that are ready before
    pulls_s: float = 5
    burst: int = 30_000
    burst_delay_ms: int = 60_000  # the least; the longest is twice as long
    topics: int = 1_000
    idle_s: float = 10
    door_messages: int = 120_000
    door_rounds: int = 5
    processes: tuple[int, ...] = (1, 2, 4)
    judged: bool = True


QUICK: Final = Size(
    rate_per_s=100,
    lateness_s=1,
    longest_ms=1_300,
    slow_rate_per_s=50,
    fast_rate_per_s=200,
    fast_s=0.5,
    backlog=1_000,
    backlog_parts=2,
    settles_s=0.1,
    instant=200,
    lone_rate_per_s=50,
    lone_s=0.2,
    sends_s=0.3,
    warm_s=0.1,
    checkpoint=400,
    outage=400,
    memory=500,
    cycle_s=2.5,
    cycle_window=400,
    pulled=2_000,
    pulls_s=0.3,
    burst=300,
    burst_delay_ms=1_500,
    topics=20,
    idle_s=0.2,
    door_messages=480,
    door_rounds=1,
    processes=(1,),
    judged=False,
)
"""A small size for tests: it shows that all runs work. Its figures mean nothing."""
