"""`delaybridge bench`: measures the figures on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import orjson
import typer
import uvloop

from bridge.bench import report
from bridge.bench.bench import Bench
from bridge.bench.errors import BenchError
from bridge.bench.runs import RUNS, Run, chosen
from bridge.bench.size import QUICK, Size
from bridge.bench.stack import GivenStack, Stack, own_stack
from bridge.local.errors import LocalError

_STDOUT = Path("-")


def bench(
    *,
    quick: Annotated[bool, typer.Option(help="Everything small, within a minute; the figures say nothing.")] = False,
    only: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(run.name for run in RUNS)}.")] = None,
    backlog: Annotated[int | None, typer.Option(min=1, help="Messages that wait in the run `backlog`.")] = None,
    http: Annotated[str | None, typer.Option(help="Address of a bridge that runs already.")] = None,
    amqp: Annotated[str | None, typer.Option(help="Address of its RabbitMQ.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the rows as JSON to this file, `-` for stdout.")] = None,
    docs: Annotated[Path | None, typer.Option(help="Write the rows as a Markdown page to this file.")] = None,
    folder: Annotated[Path, typer.Option(help="Where the private servers keep their data.")] = Path(".local/bench"),
) -> None:
    """Measure lateness, sends, checkpoint and memory on private servers, beside a plain Redis poller."""
    if (http is None) != (amqp is None):
        raise typer.BadParameter("give --http and --amqp together, or neither")
    size = QUICK if quick else Size()
    if backlog is not None:
        size = replace(size, backlog=backlog)
    try:
        runs = chosen(only or [], own_servers=http is None)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    try:
        with _stack(http, amqp, folder) as stack:
            measured = Bench(stack, size, lambda row: typer.echo(report.line(row), err=json == _STDOUT))
            failed = uvloop.run(_measure(measured, runs))
            found = report.document(measured.rows, runs, failed, size, stack)
    except (BenchError, LocalError) as error:
        typer.echo(f"delaybridge bench: {error}", err=True)
        raise typer.Exit(1) from None
    if json is not None:
        content = orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        sys.stdout.buffer.write(content) if json == _STDOUT else json.write_bytes(content)
    if docs is not None:
        docs.write_text(report.page(found))
    if failed:
        raise typer.Exit(1)


@contextmanager
def _stack(http: str | None, amqp: str | None, folder: Path) -> Iterator[Stack]:
    if http is not None and amqp is not None:
        yield GivenStack(http, amqp)
    else:
        with own_stack(folder.resolve()) as stack:
            yield stack


async def _measure(measured: Bench, runs: Sequence[Run]) -> dict[str, str]:
    """Does the runs; why some could not be done, by name. The rows of the others stand."""
    failed: dict[str, str] = {}
    for run in runs:
        typer.echo(f"{run.name}: {run.says}", err=True)
        if run.after in failed:
            failed[run.name] = f"it is compared with {run.after}"
            continue
        try:
            await run.measure(measured)
        except Exception as error:  # noqa: BLE001 - whatever ends a run, the rows of the others are worth keeping
            failed[run.name] = f"{type(error).__name__}: {error}"
            typer.echo(f"{run.name} could not be done: {failed[run.name]}", err=True)
    return failed
