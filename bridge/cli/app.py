"""Assembles the commands `delaybridge serve`, `dev`, `topology …`, `token …` and `audit`."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Annotated

import typer

from bridge.cli import failures
from bridge.cli.audit import audit
from bridge.cli.serve import serve
from bridge.cli.token import app as token_app
from bridge.cli.topology import app as topology_app
from bridge.local.errors import LocalError
from bridge.local.stack import StackSettings, run
from bridge.settings.settings import Settings
from bridge.settings.unknown import complaints_about_unknown

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # they show variables, and some hold passwords
)
app.add_typer(topology_app, name="topology", help="Show, declare, check, export and drain the topology on RabbitMQ.")
app.add_typer(token_app, name="token", help="Create, list and revoke the tokens of HTTP clients.")
app.command()(serve)
app.command()(audit)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"delaybridge {version('delaybridge')}")
        raise typer.Exit


@app.callback()
def check_environment(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Delivers messages later, on RabbitMQ.

    Exit codes of all commands: 0 done, 1 failed or found a fault, 2 an option or a setting is wrong."""
    if unknown := complaints_about_unknown(os.environ, Settings.model_fields):
        typer.echo("\n".join(unknown), err=True)
        raise typer.Exit(failures.WRONG)


@app.command()
def dev() -> None:
    """Run RabbitMQ, Redis and the bridge on this machine until Ctrl-C, as `make run` does."""
    try:
        settings = StackSettings.from_environment()
    except LocalError as error:
        failures.end("dev", str(error), failures.WRONG)
    try:
        run(settings)
    except LocalError as error:
        failures.end("dev", str(error))
