"""Decides whether the code got slower, from measurements of both versions. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

LEAST_OF_COST: Final = 0.8
# Other processes of the machine take time too. So only a change that they can't cause counts: a new wait in the code.
LEAST_OF_TIME: Final = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The cost and time of one message, for one kind of work in one turn."""

    cost: float  # of the bridge: instructions or CPU time
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One kind of work. Each ratio is the former value divided by the present one, so 0.8 means slower by a quarter."""

    work: str
    former_cost: float
    cost: float
    cost_ratio: float
    time_ratio: float

    @property
    def slower(self) -> bool:
        return self.cost_ratio < LEAST_OF_COST or self.time_ratio < LEAST_OF_TIME


def compared(work: str, turns: Sequence[tuple[Measured, Measured]]) -> Row:
    """Returns the medians of the ratios. A turn measures the former and the present code right after each other. So
    other work on the machine slows down both of a turn, and only a few turns."""
    return Row(
        work=work,
        former_cost=median(former.cost for former, _ in turns),
        cost=median(present.cost for _, present in turns),
        cost_ratio=median(former.cost / present.cost for former, present in turns),
        time_ratio=median(former.seconds / present.seconds for former, present in turns),
    )


def table(rows: Sequence[Row], unit: str) -> str:
    """Returns the rows as a table for people. `unit`: of the cost of one message."""
    lines = [f"{f'{unit} a message':<34}{'before':>9}{'now':>9}{'ratio':>8}{'of time':>9}"]
    lines += [
        f"{row.work:<34}{row.former_cost:>9.0f}{row.cost:>9.0f}{row.cost_ratio:>8.2f}{row.time_ratio:>9.2f}"
        + ("  slower" if row.slower else "")
        for row in rows
    ]
    return "\n".join(lines)
