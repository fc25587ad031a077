"""Measures the bridge of one checkout, and keeps the results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from time import monotonic
from typing import Any, Final

import orjson
import typer
import uvloop

from benchmarks.bench import Bench
from benchmarks.calibration import loop_ms
from benchmarks.document import commit, document, versions
from benchmarks.errors import BenchError
from benchmarks.runs import Run
from benchmarks.stack import Stack

_RUN_WITHIN_S: Final = 900


class Checkout:
    """A checkout, the runs that measure it, and their results. After each run `json_file` has the rows, if given.

    `begin` makes the results for the first stack. `note` says on the page how the checkout was measured.
    """

    def __init__(
        self, tree: Path, runs: Sequence[Run], begin: Callable[[Stack], Bench], json_file: Path | None, note: str = ""
    ) -> None:
        self.tree = tree
        self.runs = runs
        self._begin = begin
        self._json_file = json_file
        self._note = note
        self._bench: Bench | None = None
        self._about: dict[str, Any] = {}

    @property
    def bench(self) -> Bench:
        """The results. BenchError: there are none yet."""
        if self._bench is None:
            raise BenchError("nothing was measured")
        return self._bench

    def measure(self, stack: Stack, runs: Sequence[Run]) -> None:
        """Does those of these runs that measure this checkout. A run that fails leaves the rows of the others."""
        if self._bench is None:
            self._bench = self._begin(stack)
            self._about = {"versions": versions(stack), "commit": commit(self.tree), "note": self._note}
        self._bench.stack = stack
        uvloop.run(self._measure(self._bench, [run for run in runs if run in self.runs]))

    def document(self) -> dict[str, Any]:
        """Returns the JSON document of the results, and writes it to the file."""
        found = document(self.bench, self.runs, self._about)
        if self._json_file is not None:
            self._json_file.write_bytes(as_bytes(found))
        return found

    async def _measure(self, bench: Bench, runs: Sequence[Run]) -> None:
        for run in runs:
            typer.echo(f"{run.name}: {run.says}", err=True)
            if run.after in bench.failed:
                bench.failed[run.name] = f"it is compared with {run.after}"
                continue
            before, started_s, before_ms = set(bench.failed), monotonic(), loop_ms()
            told = len(bench.stack.faults())
            with bench.attempt(run.name):
                async with asyncio.timeout(_RUN_WITHIN_S):
                    await run.measure(bench)
                if faults := bench.stack.faults()[told:]:
                    raise BenchError(f"the bridge logged {faults[0]}")
            bench.took_s[run.name] = monotonic() - started_s
            bench.loop_ms[run.name] = (before_ms + loop_ms()) / 2
            for name in bench.failed.keys() - before:
                typer.echo(f"{name} could not be done: {bench.failed[name]}", err=True)
            self.document()


def measure(
    checkouts: Sequence[Checkout], runs: Sequence[Run], stack_of: Callable[[Path], AbstractContextManager[Stack]]
) -> None:
    """Does the runs. Several checkouts take turns, run by run, so that they meet the same state of the machine."""
    for turn in [runs] if len(checkouts) == 1 else [[run] for run in runs]:
        for checkout in checkouts:
            with stack_of(checkout.tree) as stack:
                checkout.measure(stack, turn)


def as_bytes(found: dict[str, Any]) -> bytes:
    return orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
