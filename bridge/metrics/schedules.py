"""Counts the ticks of schedules."""

from __future__ import annotations

from typing import Final

from bridge.metrics.registry import counter, gauge

TICKS: Final = counter(
    "schedule_ticks", "Ticks of schedules: sent, missed, overlapped with the previous one, or refused", "result"
)
LAG: Final = gauge("schedules_lag_seconds", "How long the schedule that waits longest for its planning waits for it")
