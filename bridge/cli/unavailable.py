"""Ends a command because RabbitMQ or Redis did not answer."""

from __future__ import annotations

from typing import NoReturn

from bridge.cli import failures
from bridge.model.errors import StoreUnavailable, Unavailable
from bridge.settings.amqp_urls import amqp_endpoints
from bridge.settings.settings import Settings


def end_unavailable(command: str, error: Unavailable, settings: Settings) -> NoReturn:
    """Ends the command with an error text that names the hosts which the command asked."""
    if isinstance(error, StoreUnavailable):
        failures.end(command, str(error))  # the text names the host of Redis
    hosts = ", ".join(sorted(f"{host}:{port}" for host, port, _ in amqp_endpoints(settings.amqp_url)))
    failures.end(command, f"{error} (asked RabbitMQ at {hosts})")
