"""Measures the figures on this machine: `make bench`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer

from benchmarks.bench import Bench
from benchmarks.checkout import Checkout, as_bytes, measure
from benchmarks.errors import BenchError
from benchmarks.page import drawings, has_figures, line, page, with_figures
from benchmarks.runs import RUNS, chosen
from benchmarks.size import QUICK, Size
from benchmarks.stack import OWN_TREE, GivenStack, Stack, own_stack
from bridge.local.errors import LocalError

_IN_TURNS: Final = "Each run measured both, one after the other."


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
        Path | None,
        typer.Option(help="Write a report to this file, or the figures that docs/benchmarks.md shows; and `plots`."),
    ] = None,
    against: Annotated[Path | None, typer.Option(help="The checkout of before: each run measures it first.")] = None,
    before: Annotated[
        Path | None,
        typer.Option(help="JSON of another run, shown beside this one in the report. --against writes it."),
    ] = None,
    from_: Annotated[Path | None, typer.Option("--from", help="Measure nothing: make the page from this JSON.")] = None,
    folder: Annotated[Path, typer.Option(help="Where the private servers keep their data.")] = Path(".local/bench"),
) -> None:
    """Measure sends, cycles, lateness, backlog and memory on private servers, and compare with other delay queues."""
    if (http is None) != (amqp is None):
        raise typer.BadParameter("give --http and --amqp together, or neither")
    if http is not None and against is not None:
        raise typer.BadParameter("--against needs private servers, so give no --http and no --amqp")
    former = None if before is None or against is not None else orjson.loads(before.read_bytes())
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

    def begin(stack: Stack) -> Bench:
        return Bench(stack, size, lambda row: typer.echo(line(row), err=json), may_install=peers)

    checkouts = [Checkout(tree, runs, begin, json_file)]
    if against is not None:
        checkouts.insert(
            0, Checkout(against, [run for run in runs if run.measures_the_bridge], begin, before, _IN_TURNS)
        )
    _collect_rarely()
    try:
        measure(checkouts, runs, lambda tree: _stack(http, amqp, folder, tree, quick=quick))
        found = checkouts[-1].document()
        former = former if against is None else checkouts[0].document()
    except (BenchError, LocalError) as error:
        typer.echo(f"bench: {error}", err=True)
        raise typer.Exit(1) from None
    if json:
        sys.stdout.buffer.write(as_bytes(found))
    if docs is not None:
        _write_docs(docs, found, former)
    if any(checkout.bench.failed for checkout in checkouts):
        raise typer.Exit(1)


def _collect_rarely() -> None:
    # A run of the collector stops the client, and the stop would count as lateness of the bridge.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def _write_docs(docs: Path, found: dict[str, Any], before: dict[str, Any] | None) -> None:
    former = docs.read_text() if docs.exists() else ""
    docs.write_text(with_figures(former, found) if has_figures(former) else page(found, before))
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


if __name__ == "__main__":
    typer.run(bench)
