"""Measures how long Redis takes for each script, and counts failed calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bridge.metrics.registry import counter, gauge, histogram

COMMAND: Final = "command"
"""The value of the label `script` for calls in which the bridge sends plain commands and no script."""

CLOCK_SKEW: Final = gauge(
    "clock_skew_seconds", "How far the clock of Redis is ahead of this machine's; negative if it is behind", "part"
)
_SECONDS: Final = histogram(
    "store_seconds",
    "Time from a call of Redis to its answer, by script",
    "script",
    buckets=(0.001, 0.005, 0.025, 0.1, 1),
)
UNNAMED: Final = counter(
    "unnamed_verdicts", "Answers of scripts that this version has no rule for, by script", "script"
)
_FAILED: Final = counter("store_failures", "Calls of Redis that failed, by script", "script")


class _Script:
    def __init__(self, name: str) -> None:
        self.seconds = _SECONDS.labels(name)
        self.failures = _FAILED.labels(name)


class _Scripts(dict[str, _Script]):
    def __missing__(self, name: str) -> _Script:
        self[name] = found = _Script(name)
        return found


_scripts: Final = _Scripts()


def answered(names: Iterable[str], took_s: float) -> None:
    """Counts a round trip to Redis that called these scripts. `took_s`: how long the answer took, in seconds."""
    for name in names:
        _scripts[name].seconds.observe(took_s)


def failed(names: Iterable[str]) -> None:
    """Counts a failed round trip to Redis that called these scripts."""
    for name in names:
        _scripts[name].failures.inc()
