"""Ends a command with its exit code. 0: it is done. 1: it failed, or found a fault. 2: an option or a setting is
wrong."""

from __future__ import annotations

from typing import Final, NoReturn

import typer

from bridge.model.errors import StoreUnavailable, Unavailable
from bridge.settings.amqp_urls import amqp_endpoints
from bridge.settings.settings import Settings

FAILED: Final = 1
WRONG: Final = 2


def end(command: str, reason: str, code: int = FAILED) -> NoReturn:
    """Prints the reason on standard error and ends the command."""
    typer.echo(f"delaybridge {command}: {reason}", err=True)
    raise typer.Exit(code)


def unavailable(command: str, error: Unavailable, settings: Settings) -> NoReturn:
    """Ends the command because a server did not answer. Names the hosts that were asked."""
    if isinstance(error, StoreUnavailable):
        end(command, str(error))  # it names the host of Redis
    hosts = ", ".join(sorted(f"{host}:{port}" for host, port, _ in amqp_endpoints(settings.amqp_url)))
    end(command, f"{error} (asked RabbitMQ at {hosts})")
