"""Rows, the goals they are held against, percentiles. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType
from typing import Any, Final, Literal

Unit = Literal["ms", "s", "messages", "messages/s", "bytes", "MiB", "CPU s/1,000", "x"]


@dataclass(frozen=True, slots=True)
class Goal:
    sign: Literal["≤", "≥"]
    limit: float

    def __str__(self) -> str:
        return f"{self.sign} {self.limit:,g}"

    def met(self, value: float) -> bool:
        return value <= self.limit if self.sign == "≤" else value >= self.limit


GOALS: Final[Mapping[str, Goal]] = MappingProxyType(
    {
        "lateness p50": Goal("≤", 3),
        "lateness p99": Goal("≤", 15),
        "lateness early": Goal("≤", 0),
        "lateness lost": Goal("≤", 0),
        "lateness refused": Goal("≤", 0),
        "backlog early": Goal("≤", 0),
        "backlog lost": Goal("≤", 0),
        "backlog refused": Goal("≤", 0),
        "backlog p99 ratio": Goal("≤", 1.5),
        "instant early": Goal("≤", 0),
        "instant all ready": Goal("≤", 2),
        "sends single": Goal("≥", 3_000),
        "sends in batches of 100": Goal("≥", 10_000),
        "checkpoint": Goal("≥", 6_000),
        "memory per waiting message": Goal("≤", 350),
    }
)
"""Goals by row; a row without one is there to be compared."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `name` begins with the run's name. `goal` is None where there is none, or it is not to be judged."""

    name: str
    value: float
    unit: Unit
    goal: Goal | None = None

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.goal.met(self.value)

    def as_json(self) -> dict[str, Any]:
        goal = None if self.goal is None else str(self.goal)
        return {"row": self.name, "value": round(self.value, 4), "unit": self.unit, "goal": goal, "met": self.met}


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest of the values that `percent` of all do not exceed (nearest rank); `ordered` is ascending.

    ValueError: there are no values.
    """
    if not ordered:
        raise ValueError("no values, so no percentile")
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)]


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p90, p99 and max."""
    ordered = sorted(values)
    return {f"p{percent}": percentile(ordered, percent) for percent in (50, 90, 99)} | {"max": ordered[-1]}
