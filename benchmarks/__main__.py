"""Measures the figures on this machine: `make bench`."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import orjson
import typer
import uvloop

from benchmarks.bench import Bench
from benchmarks.calibration import loop_ms
from benchmarks.document import commit, document, versions
from benchmarks.errors import BenchError
from benchmarks.page import drawings, line, page
from benchmarks.runs import RUNS, Run, chosen
from benchmarks.size import QUICK, Size
from benchmarks.stack import OWN_TREE, GivenStack, Stack, own_stack
from bridge.local.errors import LocalError

_RUN_WITHIN_S = 900


def bench(
    *,
    quick: Annotated[bool, typer.Option(help="Make every run small: a minute, figures mean nothing.")] = False,
    only: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(run.name for run in RUNS)}.")] = None,
    backlog: Annotated[int | None, typer.Option(min=5, help="How many messages wait in the run `backlog`.")] = None,
    peers: Annotated[bool, typer.Option(help="Download missing peers from PyPI, npm and Debian.")] = False,
    http: Annotated[str | None, typer.Option(help="Address of a bridge that runs already.")] = None,
    amqp: Annotated[str | None, typer.Option(help="Address of its RabbitMQ.")] = None,
    tree: Annotated[Path, typer.Option(help="The checkout whose bridge is measured.")] = OWN_TREE,
    json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON, and nothing else.")] = False,
    json_file: Annotated[Path | None, typer.Option(help="Write the rows as JSON to this file, after each run.")] = None,
    docs: Annotated[
        Path | None, typer.Option(help="Write the page to this file, its plots to `plots` beside it.")
    ] = None,
    before: Annotated[Path | None, typer.Option(help="JSON of another run, shown beside this one in the page.")] = None,
    from_: Annotated[Path | None, typer.Option("--from", help="Measure nothing: make the page from this JSON.")] = None,
    folder: Annotated[Path, typer.Option(help="Where the private servers keep their data.")] = Path(".local/bench"),
) -> None:
    """Measure sends, cycles, lateness, backlog and memory on private servers, and compare with other delay queues."""
    if (http is None) != (amqp is None):
        raise typer.BadParameter("give --http and --amqp together, or neither")
    former = None if before is None else orjson.loads(before.read_bytes())
    if from_ is not None:
        if docs is not None:
            _write_docs(docs, orjson.loads(from_.read_bytes()), former)
        return
    size = QUICK if quick else Size()
    if backlog is not None:
        size = replace(size, backlog=backlog)
    try:
        runs = chosen(only or [], own_servers=http is None)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    try:
        with _stack(http, amqp, folder, tree, quick=quick) as stack:
            bench_run = Bench(stack, size, lambda row: typer.echo(line(row), err=json), may_install=peers)
            about = {"versions": versions(stack), "commit": commit(tree)}

            def done() -> dict[str, Any]:
                found = document(bench_run, runs, about)
                if json_file is not None:
                    json_file.write_bytes(_as_bytes(found))
                return found

            _collect_rarely()
            uvloop.run(_measure(bench_run, runs, done))
            found = done()
    except (BenchError, LocalError) as error:
        typer.echo(f"bench: {error}", err=True)
        raise typer.Exit(1) from None
    if json:
        sys.stdout.buffer.write(_as_bytes(found))
    if docs is not None:
        _write_docs(docs, found, former)
    if bench_run.failed:
        raise typer.Exit(1)


def _collect_rarely() -> None:
    # A run of the collector stops the client, and the stop would count as lateness of the bridge.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def _as_bytes(found: dict[str, Any]) -> bytes:
    return orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _write_docs(docs: Path, found: dict[str, Any], before: dict[str, Any] | None) -> None:
    docs.write_text(page(found, before))
    plots = docs.parent / "plots"
    for name, drawn in drawings(found).items():
        plots.mkdir(exist_ok=True)
        (plots / name).write_text(drawn)


@contextmanager
def _stack(http: str | None, amqp: str | None, folder: Path, tree: Path, *, quick: bool) -> Iterator[Stack]:
    if http is not None and amqp is not None:
        yield GivenStack(http, amqp)
    else:
        with own_stack(folder.resolve(), tree=tree.resolve(), reuse=quick) as stack:
            yield stack


async def _measure(measured: Bench, runs: Sequence[Run], done: Callable[[], object]) -> None:
    """Does the runs, and calls `done` after each. A run that fails leaves the rows of the others."""
    for run in runs:
        typer.echo(f"{run.name}: {run.says}", err=True)
        if run.after in measured.failed:
            measured.failed[run.name] = f"it is compared with {run.after}"
            continue
        before, started_s, before_ms = set(measured.failed), monotonic(), loop_ms()
        with measured.attempt(run.name):
            async with asyncio.timeout(_RUN_WITHIN_S):
                await run.measure(measured)
        measured.took_s[run.name] = monotonic() - started_s
        measured.loop_ms[run.name] = (before_ms + loop_ms()) / 2
        for name in measured.failed.keys() - before:
            typer.echo(f"{name} could not be done: {measured.failed[name]}", err=True)
        done()


if __name__ == "__main__":
    typer.run(bench)
