"""Counts callbacks and measures how long receivers take."""

from __future__ import annotations

from typing import Final

from bridge.metrics.registry import counter, histogram
from bridge.metrics.topics import LABELS, ByTopic

PUSHED: Final = ByTopic("pushed", "Callbacks that the receiver accepted")
HELD: Final = ByTopic("push_held", "Callbacks whose receiver asked for a pause")
SECONDS: Final = histogram(
    "push_seconds",
    "Time from the start of a callback to the end of its answer",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
_FAILED: Final = counter("push_failed", "Callbacks that failed", "topic", "reason")


def failed(topic: str, reason: str) -> None:
    """Counts a callback that failed. `reason`: why, in one word, such as `timeout`
    (`bridge/loops/callbacks/decisions.py`)."""
    _FAILED.labels(LABELS.of(topic), reason).inc()
