"""Draws what a simulation is made of: a few kinds of actions and faults, on a few topics. Pure.

With few kinds, a seed has many events of each, so they meet on the same messages. All seeds together have all kinds:
Groce et al., "Swarm testing", ISSTA 2012.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar

from tests.simulate.topics import USED
from tests.torture.topics import PULLED

_Kind = TypeVar("_Kind")

_TOPICS: Final = (0.2, 0.5)
_ACTIONS: Final = (0.25, 0.5)
_FAULTS: Final = (0.15, 0.3, 0.5)
"""The chances of a kind in a seed."""

_APART_S: Final = ((0.5, 3.0), (1.5, 8.0))
_LONGEST_MS: Final = (2_000, 5_000, 12_000)
_LEASES_MS: Final = ((1_000, 2_000), (1_500, 6_000), (4_500, 9_000))
_SPOILED: Final = (0.1, 0.3, 0.6)
_WAITS: Final = (0.0, 0.7)
_BATCHES: Final = (5, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """What one seed has. `topics`: those that it uses; what the load does on another one is left out. `actions`,
    `faults`: the chance of each kind. `apart_s`: the least and the most seconds between two faults. `longest_ms`: the
    longest delay of most messages. `batch`: messages of a batch. `lease_ms`: the shortest and the longest lease.
    `spoiled`: the share of messages that most pullers do not simply ack. `waits`: the share of pulls that wait for a
    message."""

    topics: frozenset[str]
    actions: float
    faults: float
    apart_s: tuple[float, float]
    longest_ms: int
    batch: int
    lease_ms: tuple[int, int]
    spoiled: float
    waits: float

    @classmethod
    def drawn(cls, random: Random) -> Mix:
        """Draws the mix of a seed. Each has the topic `PULLED[0]`, which takes all kinds of messages."""
        return cls(
            topics=frozenset((PULLED[0], *some(random, USED, random.choice(_TOPICS)))),
            actions=random.choice(_ACTIONS),
            faults=random.choice(_FAULTS),
            apart_s=random.choice(_APART_S),
            longest_ms=random.choice(_LONGEST_MS),
            batch=random.choice(_BATCHES),
            lease_ms=random.choice(_LEASES_MS),
            spoiled=random.choice(_SPOILED),
            waits=random.choice(_WAITS),
        )

    def of(self, topics: Sequence[str]) -> tuple[str, ...]:
        """Returns those of the topics that the seed uses."""
        return tuple(topic for topic in topics if topic in self.topics)


def some(random: Random, kinds: Sequence[_Kind], chance: float) -> list[_Kind]:
    """Draws kinds, each with this chance."""
    return [kind for kind in kinds if random.random() < chance]
