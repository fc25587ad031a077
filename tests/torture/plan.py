"""Decides by a seed alone which fault comes when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random

BROKER, REDIS = "broker", "redis"
BRIDGES = ("bridge-1", "bridge-2")
EVERYTHING = ((BROKER,), (REDIS,), BRIDGES)

_FIRST_S = (3.0, 5.0)
_APART_S = (8.0, 12.0)  # from the start of one to the start of the next
LONGEST_S = 4.0
_CALM_AT_END_S = LONGEST_S


class Kind(StrEnum):
    KILL = "kill"  # SIGKILL, and a new start after the duration
    FREEZE = "freeze"  # SIGSTOP for the duration
    CUT = "cut"  # its TCP connections are closed, and it gets none for the duration
    SLOW = "slow"  # bytes to and from it take longer for the duration
    TERMINATE = "terminate"  # SIGTERM, and a new start after the duration


_TARGETS = dict.fromkeys(Kind, EVERYTHING) | {Kind.TERMINATE: (BRIDGES,)}
_DURATIONS_S = {
    Kind.KILL: (0.0, 2.0),
    Kind.FREEZE: (1.0, LONGEST_S),
    Kind.CUT: (0.0, 1.0),
    Kind.SLOW: (2.0, LONGEST_S),
    Kind.TERMINATE: (0.0, 2.0),
}


@dataclass(frozen=True, slots=True)
class Fault:
    at_s: float  # from the start of the load, at the earliest: a server that starts slowly delays the next fault
    kind: Kind
    target: str
    duration_s: float


def plan(seed: int, minutes: float) -> tuple[Fault, ...]:
    """Returns the faults of a run, in order. At least four seconds pass between the end of one and the start of the
    next. Five consecutive faults are of five kinds, so a run of a minute has each kind.
    """
    random = Random(seed)
    return tuple(_faults(random, minutes * 60 - _CALM_AT_END_S))


def _faults(random: Random, until_s: float) -> Iterator[Fault]:
    at_s = random.uniform(*_FIRST_S)
    targets = {kind: _in_turn(random, _TARGETS[kind]) for kind in Kind}
    while True:
        for kind in random.sample(list(Kind), len(Kind)):
            duration_s = random.uniform(*_DURATIONS_S[kind])
            target = random.choice(next(targets[kind]))
            if at_s + duration_s > until_s:
                return
            yield Fault(round(at_s, 3), kind, target, round(duration_s, 3))
            at_s += random.uniform(*_APART_S)


def _in_turn(random: Random, groups: tuple[tuple[str, ...], ...]) -> Iterator[tuple[str, ...]]:
    """Yields each group once before any again, in an order that changes."""
    while True:
        yield from random.sample(groups, len(groups))
