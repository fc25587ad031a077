"""Kills, freezes and cuts off private servers under load, and checks what became of every message: `make torture`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import orjson
import typer
import uvloop

from bridge.local.errors import LocalError
from tests.torture.load import RATE_PER_S
from tests.torture.producers import SHORT_MS
from tests.torture.run import Wanted
from tests.torture.run import torture as run
from tests.torture.stage import SetUp


def torture(
    *,
    minutes: Annotated[float, typer.Option(min=0.1, help="How long the load and the faults go on.")] = 10.0,
    seed: Annotated[int, typer.Option(help="Decides which faults come when.")] = 1,
    rate: Annotated[float, typer.Option(min=10, help="Messages a second.")] = RATE_PER_S,
    longest: Annotated[float, typer.Option(min=0.1, help="The longest delay, in seconds.")] = SHORT_MS / 1_000,
    load: Annotated[int, typer.Option(min=0, help="Processes that keep the machine busy meanwhile.")] = 0,
    set_up: Annotated[SetUp, typer.Option(help="Which servers run.")] = SetUp.SINGLE,
    json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
    folder: Annotated[Path, typer.Option(help="Where the private servers keep their data.")] = Path(".local/torture"),
) -> None:
    """Kill, freeze, cut off and slow down private servers under load, and check what became of every message.

    Exits with 1 if a message is lost, early, delivered though deleted in time, or delivered too often over HTTP. Also
    exits with 1 if a bridge logged an error. Then the histories and logs are kept in a folder that is named last.
    """
    # Lost connections are what a run is made of, and it would write each down with a traceback.
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)
    wanted = Wanted(minutes=minutes, seed=seed, rate_per_s=rate, longest_s=longest, load=load, set_up=set_up)
    try:
        outcome = uvloop.run(run(folder.resolve(), wanted, lambda line: typer.echo(line, err=True)))
    except LocalError as error:
        typer.echo(f"torture: {error}", err=True)
        raise typer.Exit(2) from None
    wrong = outcome.wrong()
    for line in wrong:
        typer.echo(line, err=True)
    found = outcome.as_json()
    if json:
        typer.echo(orjson.dumps(found))
    else:
        for name in ("events", "faults"):
            found[name] = ", ".join(f"{count} {kind}" for kind, count in found[name].items())
        for name, count in found.items():
            typer.echo(f"{name.replace('_', ' '):<24}{count}")
    if wrong:
        typer.echo(f"the histories and logs are in {outcome.keep(folder.resolve(), f'seed-{seed}')}", err=True)
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(torture)
