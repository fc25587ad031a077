"""Assembles the program `delaybridge` from its commands."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Annotated

import typer

from bridge.cli import failures
from bridge.cli.commands import Commands
from bridge.cli.environment import complaints
from bridge.cli.groups import App
from bridge.settings.unknown import CONFIG

_CODES = "; ".join(f"{code} {meaning}" for code, meaning in failures.MEANINGS.items())
_HELP = f"""Delivers messages later, on RabbitMQ.

The options --config, --url, --token and --json may come before or after the command.

Exit codes: {_CODES}."""

app = App(Commands, completion=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"delaybridge {version('delaybridge')}")
        raise typer.Exit


@app.callback(help=_HELP)
def check_environment(
    context: typer.Context,
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="A TOML file of settings, in place of that of BRIDGE_CONFIG.")
    ] = None,
) -> None:
    if config is not None:
        os.environ[CONFIG] = config
    if context.invoked_subcommand == "doctor":
        return  # the doctor lists unknown settings among other faults
    if unknown := complaints(os.environ):
        typer.echo("\n".join(unknown), err=True)
        raise typer.Exit(failures.WRONG)
