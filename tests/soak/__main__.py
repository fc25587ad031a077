"""Runs two rounds of load on private servers, and checks that the second one leaves nothing behind: `make soak`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import orjson
import typer
import uvloop

from bridge.local.errors import LocalError
from tests.soak.calls import WrongAnswer
from tests.soak.run import Wanted
from tests.soak.run import soak as run


def soak(
    *,
    minutes: Annotated[float, typer.Option(min=0.1, help="How long the load of both rounds goes on.")] = 60.0,
    seed: Annotated[int, typer.Option(help="Decides which calls are made.")] = 1,
    rate: Annotated[float, typer.Option(min=1, help="Calls a second. Most send a message.")] = 30.0,
    json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
    folder: Annotated[Path, typer.Option(help="Where the private servers keep their data.")] = Path(".local/soak"),
) -> None:
    """Run two equal rounds of load on private servers, and compare what is left after each.

    Exits with 1 if the second round leaves something behind, or the bridge logged an error. Then the lines name the
    keys, queues, connections, files, tasks and objects.
    """
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)
    wanted = Wanted(minutes=minutes, calls_per_s=rate, seed=seed)
    try:
        outcome = uvloop.run(run(folder.resolve(), wanted, lambda line: typer.echo(line, err=True)))
    except LocalError as error:
        typer.echo(f"soak: {error}", err=True)
        raise typer.Exit(2) from None
    except WrongAnswer as error:
        typer.echo(f"soak: {error}", err=True)
        raise typer.Exit(1) from None
    for line in outcome.left:
        typer.echo(line, err=True)
    found = outcome.as_json()
    if json:
        typer.echo(orjson.dumps(found))
    else:
        for number, names in enumerate(found["rounds"], 1):
            typer.echo(f"after round {number}")
            for name, count in names.items():
                typer.echo(f"  {name:<24}{count:>12,}")
    if outcome.left:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(soak)
