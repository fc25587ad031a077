"""Assembles the commands `delaybridge serve`, `dev`, `topology …`, `token …` and `audit`."""

from __future__ import annotations

import sys

import typer

from bridge.cli.audit import audit
from bridge.cli.serve import serve
from bridge.cli.token import app as token_app
from bridge.cli.topology import app as topology_app
from bridge.local.errors import LocalError
from bridge.local.stack import StackSettings, run

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # they show variables, and some hold passwords
    help="Delivers messages later, on RabbitMQ.",
)
app.add_typer(topology_app, name="topology", help="Show, declare, check, export and drain the topology on RabbitMQ.")
app.add_typer(token_app, name="token", help="Create, list and revoke the tokens of HTTP clients.")
app.command()(serve)
app.command()(audit)


@app.command()
def dev() -> None:
    """Run RabbitMQ, Redis and the bridge on this machine until Ctrl-C, as `make run` does."""
    try:
        run(StackSettings.from_environment())
    except LocalError as error:
        print(f"delaybridge: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
