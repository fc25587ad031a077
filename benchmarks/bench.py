"""Holds the context of a run: the stack, the size, and the rows that it adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from benchmarks.errors import BenchError
from benchmarks.figures import GOALS, Goal, Row, Series, Unit
from benchmarks.size import Size
from benchmarks.stack import CpuSeconds, OwnStack, Stack


class Bench:
    """The stack and the size of the runs, and their results.

    `peers`: by peer, what its answer to a send guarantees. `failed`: by run or part of a run, why it failed. `took_s`:
    the duration of each run. `loop_ms`: by run, the CPU time of a fixed loop before and after it.
    """

    def __init__(
        self,
        stack: Stack,
        size: Size,
        added: Callable[[Row], None] = lambda row: None,
        *,
        may_install: bool = False,
    ) -> None:
        """`added` is called with each row. `may_install`: peers may be downloaded from PyPI, npm and Debian."""
        self.stack = stack
        self.size = size
        self.may_install = may_install
        self.rows: list[Row] = []
        self.series: list[Series] = []
        self.peers: dict[str, str] = {}
        self.versions: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.took_s: dict[str, float] = {}
        self.loop_ms: dict[str, float] = {}
        self._added = added

    @property
    def own(self) -> OwnStack:
        """The stack, if its servers are private.

        Raises:
            BenchError: the servers were running before.
        """
        if not isinstance(self.stack, OwnStack):
            raise BenchError("this run needs private servers; run it without an URL")
        return self.stack

    @contextmanager
    def attempt(self, name: str) -> Iterator[None]:
        """Records the failure of a run or a part of it, so that the others still run."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            self.failed[name] = f"{type(error).__name__}: {error}"

    def add(self, name: str, value: float, unit: Unit) -> float:
        """Adds a row and returns its value."""
        self._add(Row(name, value, unit, self._goal(name)))
        return value

    def add_not_run(self, name: str, unit: Unit, why: str) -> None:
        """Adds a row without a figure. `why` gives the reason."""
        self._add(Row(name, None, unit, self._goal(name), why))

    def add_best(self, name: str, by_processes: Mapping[int, float], unit: Unit, *, best: Callable[..., int]) -> None:
        """Adds the best of the figures measured with different numbers of processes, and that number.

        Raises:
            BenchError: there are no figures.
        """
        if not by_processes:
            raise BenchError("the measurement failed with every number of processes")
        processes = best(by_processes, key=lambda count: by_processes[count])
        self.add(name, by_processes[processes], unit)
        self.add(f"{name} with", processes, "processes")

    def add_series(self, name: str, x: str, y: str, lines: Mapping[str, Sequence[tuple[float, float]]]) -> None:
        """Adds lines to the series of this name."""
        existing = next((series for series in self.series if series.name == name), None)
        if existing is not None:
            self.series.remove(existing)
            lines = {**existing.lines, **lines}
        self.series.append(Series(name, x, y, lines))

    def value(self, name: str) -> float:
        """Returns the value of a row that an earlier run has added.

        Raises:
            BenchError: there is no such value.
        """
        for row in self.rows:
            if row.name == name and row.value is not None:
                return row.value
        raise BenchError(f"this run is compared with {name}, which was not measured")

    def topic(self, name: str) -> str:
        return f"bench-{name}{self.stack.topic_ending}"

    def processes(self, wanted: Iterable[int]) -> list[int]:
        """Returns the numbers of bridge processes to measure with. For a stack that already runs: 1."""
        return list(wanted) if isinstance(self.stack, OwnStack) else [1]

    def add_cpu(self, name: str, before: CpuSeconds, messages: int) -> float:
        """Adds the CPU time of each part for `messages` since `before`, an earlier value of `stack.cpu_s()`.

        Returns the sum of all parts but the client, in seconds for 1,000 messages.
        """
        servers = 0.0
        for part, after_s in self.stack.cpu_s().items():
            used = (after_s - before.get(part, 0.0)) / max(1, messages) * 1_000
            servers += used if part != "client" else 0.0
            self.add(f"{name} cpu {part}", used, "CPU s/1,000")
        return servers

    def _goal(self, name: str) -> Goal | None:
        return GOALS.get(name) if self.size.judged else None

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        self._added(row)
