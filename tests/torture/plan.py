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
_CLOCK_MS = (-3_600_000, -2_000, 2_000, 20_000)


class Kind(StrEnum):
    KILL = "kill"  # SIGKILL, and a new start after the duration
    FREEZE = "freeze"  # SIGSTOP for the duration
    CUT = "cut"  # its TCP connections are closed, and it gets none for the duration
    SLOW = "slow"  # bytes to and from it take longer for the duration
    TERMINATE = "terminate"  # SIGTERM, and a new start after the duration
    STARVE = "starve"  # it gets a fifth of the time, in pulses of SIGSTOP and SIGCONT
    CLOCK = "clock"  # its clock is set ahead or back, and right again after the duration
    SLOW_DISK = "slow disk"  # each write to the disk takes longer for the duration
    PARTITION = "partition"  # a node of a cluster is cut off from the others; one way: it hears nothing
    FULL_DISK = "full disk"  # for the duration; Redis exits, and is started again
    EMPTY = "empty"  # Redis loses all its keys, in a moment


_TARGETS = dict.fromkeys(Kind, EVERYTHING) | {
    Kind.TERMINATE: (BRIDGES,),
    Kind.CLOCK: ((REDIS,),),
    Kind.SLOW_DISK: ((BROKER,), (REDIS,)),
    Kind.FULL_DISK: ((BROKER,), (REDIS,)),
    Kind.PARTITION: ((BROKER,),),
    Kind.EMPTY: ((REDIS,),),
}
_DURATIONS_S = {
    Kind.KILL: (0.0, 2.0),
    Kind.FREEZE: (1.0, LONGEST_S),
    Kind.CUT: (0.0, 1.0),
    Kind.SLOW: (2.0, LONGEST_S),
    Kind.TERMINATE: (0.0, 2.0),
    Kind.STARVE: (2.0, LONGEST_S),
    Kind.CLOCK: (1.0, LONGEST_S),
    Kind.SLOW_DISK: (2.0, LONGEST_S),
    Kind.FULL_DISK: (0.5, 2.0),
    Kind.PARTITION: (2.0, 9.0),
    Kind.EMPTY: (0.0, 0.0),
}


@dataclass(frozen=True, slots=True)
class Fault:
    at_s: float  # from the start of the load, at the earliest: a server that starts slowly delays the next fault
    kind: Kind
    target: str
    duration_s: float
    clock_ms: int = 0  # how far a clock is set ahead; back if negative
    one_way: bool = False


def plan(seed: int, minutes: float, *, partitions: bool = False) -> tuple[Fault, ...]:
    """Returns the faults of a run, in order. At least four seconds pass between the end of one and the start of the
    next. Consecutive faults are of different kinds, until each has come: ten, which take two minutes. `partitions`:
    RabbitMQ is a cluster, and there are eleven.
    """
    random = Random(seed)
    kinds = [kind for kind in Kind if partitions or kind is not Kind.PARTITION]
    return tuple(_faults(random, kinds, minutes * 60 - _CALM_AT_END_S))


def _faults(random: Random, kinds: list[Kind], until_s: float) -> Iterator[Fault]:
    at_s = random.uniform(*_FIRST_S)
    targets = {kind: _in_turn(random, _TARGETS[kind]) for kind in Kind}
    while True:
        for kind in random.sample(kinds, len(kinds)):
            duration_s = random.uniform(*_DURATIONS_S[kind])
            target = random.choice(next(targets[kind]))
            if at_s + duration_s > until_s:
                return
            clock_ms = random.choice(_CLOCK_MS) if kind is Kind.CLOCK else 0
            one_way = kind is Kind.PARTITION and random.random() < 0.5
            yield Fault(round(at_s, 3), kind, target, round(duration_s, 3), clock_ms, one_way)
            at_s += random.uniform(*_APART_S) + max(0.0, duration_s - LONGEST_S)


def _in_turn(random: Random, groups: tuple[tuple[str, ...], ...]) -> Iterator[tuple[str, ...]]:
    """Yields each group once before any again, in an order that changes."""
    while True:
        yield from random.sample(groups, len(groups))
