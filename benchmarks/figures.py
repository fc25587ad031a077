"""Defines rows, their goals, and percentiles. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType
from typing import Any, Final, Literal

Unit = Literal[
    "ms", "s", "messages", "messages/s", "bytes", "MiB", "CPU s/1,000", "CPU s/s", "topics/s", "x", "processes"
]


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
        "lateness p50": Goal("≤", 2.5),
        "lateness p99": Goal("≤", 8),
        "lateness early": Goal("≤", 0),
        "lateness lost": Goal("≤", 0),
        "lateness refused": Goal("≤", 0),
        "lateness whole life": Goal("≤", 1.5),
        "lateness-50 p50": Goal("≤", 2.5),
        "lateness-50 p99": Goal("≤", 5),
        "lateness-2000 best p99": Goal("≤", 100),
        "backlog early": Goal("≤", 0),
        "backlog lost": Goal("≤", 0),
        "backlog refused": Goal("≤", 0),
        "backlog p99 ratio": Goal("≤", 1.15),
        "backlog memory bridge growth": Goal("≤", 16),  # MiB; memory that is freed and kept may be as much
        "backlog memory by message, body kept": Goal("≤", 450),
        "memory by message, body not kept": Goal("≤", 230),
        "memory per waiting message": Goal("≤", 350),
        "instant early": Goal("≤", 0),
        "instant last": Goal("≤", 1.5),
        "lone p50": Goal("≤", 3),
        "sends single": Goal("≥", 3_500),
        "sends single best": Goal("≥", 8_000),
        "sends single, ids given": Goal("≥", 6_000),
        "sends single, 10 kB beside 200 B": Goal("≥", 0.8),
        "sends in batches of 100 best": Goal("≥", 30_000),
        "sends in batches of 100, one delay best": Goal("≥", 20_000),
        "cycle http best": Goal("≥", 6_000),
        "cycle amqp checked best": Goal("≥", 12_000),
        "cycle amqp direct best": Goal("≥", 7_500),
        "pulls 64 connections": Goal("≥", 3_000),
        "pulls 4 connections": Goal("≥", 800),
        "pulls late p50": Goal("≤", 10),
        "pulls late p99": Goal("≤", 50),
        "pulls late early": Goal("≤", 0),
        "burst p99": Goal("≤", 30),
        "burst early": Goal("≤", 0),
        "topics made": Goal("≥", 150),
        "topics after a lost connection": Goal("≥", 0.8),
        "checkpoint": Goal("≥", 6_000),
        "door publishes, share": Goal("≥", 0.8),
        "door deliveries, share": Goal("≥", 0.8),
    }
)
"""Goals by row. A row without a goal is for comparison."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `name` begins with the run's name. `goal` None: the row has no goal, or this size is not judged.

    `value` None: the row was not measured, and `not_run` says why.
    """

    name: str
    value: float | None
    unit: Unit
    goal: Goal | None = None
    not_run: str = ""

    @property
    def met(self) -> bool | None:
        return None if self.goal is None or self.value is None else self.goal.met(self.value)

    def as_json(self) -> dict[str, Any]:
        goal = None if self.goal is None else str(self.goal)
        value = None if self.value is None else round(self.value, 4)
        why = {"not_run": self.not_run} if self.value is None else {}
        return {"row": self.name, "value": value, "unit": self.unit, "goal": goal, "met": self.met, **why}


@dataclass(frozen=True, slots=True)
class Series:
    """The data of a plot: points (x, y) by the name of their line."""

    name: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]

    def as_json(self) -> dict[str, Any]:
        lines = {name: [[round(x, 4), round(y, 4)] for x, y in points] for name, points in self.lines.items()}
        return {"name": self.name, "x": self.x, "y": self.y, "lines": lines}


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Returns the smallest value that at least `percent` of all values do not exceed (nearest rank). `ordered` ascends.

    Raises:
        ValueError: there are no values.
    """
    if not ordered:
        raise ValueError("there are no values, so there is no percentile")
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)]


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Returns p50, p90, p99 and max."""
    ordered = sorted(values)
    return {f"p{percent}": percentile(ordered, percent) for percent in (50, 90, 99)} | {"max": ordered[-1]}


CURVE: Final = (1, 5, 10, 25, 50, 75, 90, 95, 98, 99, 99.5, 99.9, 100)
"""The percents at which a curve has points."""


def curve(values: Sequence[float]) -> list[tuple[float, float]]:
    """Returns (percent, value) for each percent of CURVE; nothing without values."""
    ordered = sorted(values)
    return [(percent, percentile(ordered, percent)) for percent in CURVE] if ordered else []
