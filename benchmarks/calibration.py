"""Measures how fast the machine is at a moment: other tenants, heat and frequency change it by a factor of two."""

from __future__ import annotations

from time import process_time
from typing import Final

_STEPS: Final = 500_000
_TRIES: Final = 5


def loop_ms() -> float:
    """Returns the CPU time of a fixed loop in ms, the best of a few tries."""
    return min(_once_ms() for _ in range(_TRIES))


def _once_ms() -> float:
    began_s, total = process_time(), 0
    for step in range(_STEPS):
        total += step & 7
    return (process_time() - began_s) * 1_000
