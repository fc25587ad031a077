"""What a run is given."""

from __future__ import annotations

from collections.abc import Callable

from bridge.bench.errors import BenchError
from bridge.bench.figures import GOALS, Row, Unit
from bridge.bench.size import Size
from bridge.bench.stack import CpuSeconds, OwnStack, Stack


class Bench:
    """The stack and the size of the runs, and the rows they add."""

    def __init__(self, stack: Stack, size: Size, added: Callable[[Row], None] = lambda row: None) -> None:
        self.stack = stack
        self.size = size
        self.rows: list[Row] = []
        self._added = added

    @property
    def own(self) -> OwnStack:
        """
        Raises:
            BenchError: the stack is not ours.
        """
        if not isinstance(self.stack, OwnStack):
            raise BenchError("this run needs servers of its own")
        return self.stack

    def add(self, name: str, value: float, unit: Unit) -> float:
        """Adds a row; returns its value."""
        row = Row(name, value, unit, GOALS.get(name) if self.size.judged else None)
        self.rows.append(row)
        self._added(row)
        return value

    def value(self, name: str) -> float:
        """The value of a row that an earlier run has added."""
        return next(row.value for row in self.rows if row.name == name)

    def topic(self, name: str) -> str:
        return f"bench-{name}{self.stack.topic_ending}"

    def add_cpu(self, name: str, before: CpuSeconds, messages: int) -> None:
        """Adds what each part has used for so many messages since `before`, which `stack.cpu_s()` gave."""
        for part, after_s in self.stack.cpu_s().items():
            self.add(f"{name} cpu {part}", (after_s - before[part]) / messages * 1_000, "CPU s/1,000")
