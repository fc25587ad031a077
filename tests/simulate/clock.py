"""Replaces the clocks and the randomness of this process by virtual ones.

`install` must run before any module of the bridge is imported: many import `monotonic` and others by name. Until a
simulation begins, the functions return the machine's time and randomness.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from random import Random
from typing import Final

EPOCH_S: Final = 1_800_000_000
"""The Unix time at which each simulation begins: 15 January 2027."""

_FIRST_S: Final = 1_000.0  # of the monotonic clock: a process never starts with its machine

_real_time, _real_time_ns, _real_monotonic = time.time, time.time_ns, time.monotonic
_real_urandom = os.urandom


class Clock:
    """The virtual time of a simulation. `monotonic_s` only grows. `ahead_s`: how far the wall clock of the running
    process is ahead of the right time."""

    def __init__(self) -> None:
        self.runs = False
        self.monotonic_s = _FIRST_S
        self.entropy = Random(0)
        self.ahead_s: Callable[[], float] = float

    @property
    def elapsed_s(self) -> float:
        """The seconds since the simulation began."""
        return self.monotonic_s - _FIRST_S

    @property
    def unix_us(self) -> int:
        """The right time."""
        return int((EPOCH_S + self.elapsed_s) * 1_000_000)

    def begin(self, seed: int) -> None:
        """Stops the machine's clock for this process. From now on, all its randomness comes from the seed."""
        self.runs = True
        self.monotonic_s = _FIRST_S
        self.entropy = Random(f"entropy {seed}")
        random.seed(f"random {seed}")

    def end(self) -> None:
        """Gives the process the machine's clock and randomness again."""
        self.runs = False
        random.seed()


CLOCK: Final = Clock()
"""The clock of this process: a process runs one simulation."""


def install() -> None:
    """Puts the virtual functions in place of those of `time`, `os` and `random`."""
    time.time = _time
    time.time_ns = _time_ns
    time.monotonic = _monotonic
    os.urandom = _urandom
    vars(random)["_urandom"] = _urandom  # `secrets` and `SystemRandom` use this


def _monotonic() -> float:
    return CLOCK.monotonic_s if CLOCK.runs else _real_monotonic()


def _time() -> float:
    return EPOCH_S + CLOCK.elapsed_s + CLOCK.ahead_s() if CLOCK.runs else _real_time()


def _time_ns() -> int:
    return CLOCK.unix_us * 1_000 + round(CLOCK.ahead_s() * 1e9) if CLOCK.runs else _real_time_ns()


def _urandom(size: int, /) -> bytes:
    return CLOCK.entropy.randbytes(size) if CLOCK.runs else _real_urandom(size)
