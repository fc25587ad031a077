"""What a run is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from benchmarks.errors import BenchError
from benchmarks.figures import GOALS, Goal, Row, Series, Unit
from benchmarks.size import Size
from benchmarks.stack import CpuSeconds, OwnStack, Stack


class Bench:
    """The stack and the size of the runs, and what they add.

    `peers`: what "accepted" means, by name. `failed`: why a run, or a part of one, could not be done, by name.
    `took_s`: by run.
    """

    def __init__(
        self,
        stack: Stack,
        size: Size,
        added: Callable[[Row], None] = lambda row: None,
        *,
        may_install: bool = False,
    ) -> None:
        """`added` is told each row. `may_install`: peers may be fetched from PyPI, npm and Debian."""
        self.stack = stack
        self.size = size
        self.may_install = may_install
        self.rows: list[Row] = []
        self.series: list[Series] = []
        self.peers: dict[str, str] = {}
        self.versions: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.took_s: dict[str, float] = {}
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

    @contextmanager
    def attempt(self, name: str) -> Iterator[None]:
        """Whatever ends a run or a part of one, the rows of the others are worth keeping."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            self.failed[name] = f"{type(error).__name__}: {error}"

    def add(self, name: str, value: float, unit: Unit) -> float:
        """Adds a row; returns its value."""
        self._add(Row(name, value, unit, self._goal(name)))
        return value

    def add_not_run(self, name: str, unit: Unit, why: str) -> None:
        """Adds a row that says why there is no figure."""
        self._add(Row(name, None, unit, self._goal(name), why))

    def add_best(self, name: str, by_processes: Mapping[int, float], unit: Unit, *, best: Callable[..., int]) -> None:
        """Adds the best of what was measured with some numbers of processes, and with which it was.

        Raises:
            BenchError: nothing was.
        """
        if not by_processes:
            raise BenchError("with no number of processes could it be measured")
        processes = best(by_processes, key=lambda count: by_processes[count])
        self.add(name, by_processes[processes], unit)
        self.add(f"{name} with", processes, "processes")

    def add_series(self, name: str, x: str, y: str, lines: Mapping[str, Sequence[tuple[float, float]]]) -> None:
        """Adds lines to the series of this name."""
        former = next((series for series in self.series if series.name == name), None)
        if former is not None:
            self.series.remove(former)
            lines = {**former.lines, **lines}
        self.series.append(Series(name, x, y, lines))

    def value(self, name: str) -> float:
        """The value of a row that an earlier run has added.

        Raises:
            BenchError: none has.
        """
        for row in self.rows:
            if row.name == name and row.value is not None:
                return row.value
        raise BenchError(f"it is compared with {name}, which was not measured")

    def topic(self, name: str) -> str:
        return f"bench-{name}{self.stack.topic_ending}"

    def processes(self, wanted: Iterable[int]) -> list[int]:
        """Numbers of bridge processes to measure with: of a stack that runs already, the one it has."""
        return list(wanted) if isinstance(self.stack, OwnStack) else [1]

    def add_cpu(self, name: str, before: CpuSeconds, messages: int) -> None:
        """Adds what each part has used for so many messages since `before`, which `stack.cpu_s()` gave."""
        for part, after_s in self.stack.cpu_s().items():
            used_s = after_s - before.get(part, 0.0)
            self.add(f"{name} cpu {part}", used_s / max(1, messages) * 1_000, "CPU s/1,000")

    def _goal(self, name: str) -> Goal | None:
        return GOALS.get(name) if self.size.judged else None

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        self._added(row)
