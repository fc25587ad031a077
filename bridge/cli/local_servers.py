"""Points a command at the servers of a running `make run`, if the settings name no server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import typer

from bridge.local.running import data_dir, running_servers
from bridge.settings.amqp_urls import without_password
from bridge.settings.unknown import CONFIG, CREDENTIALS_DIR, SECRETS_DIR

_SERVERS = ("BRIDGE_AMQP_URL", "BRIDGE_REDIS_URL")
_NAMED = (*_SERVERS, *(f"{name}_FILE" for name in _SERVERS), CONFIG, SECRETS_DIR, CREDENTIALS_DIR)


def local_servers(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Returns settings, by name, that point to the servers of a running `make run`. Prints a line about these servers
    on standard error.

    Returns no settings if no `make run` runs, or if the environment names a server or a file of settings. A server of
    the environment and a server of `make run` would not belong together.
    """
    if any(name.upper() in _NAMED for name in environment):
        return {}
    folder = data_dir(environment)
    servers = running_servers(folder)
    if servers is None:
        return {}
    shown = f"{without_password(servers.amqp_url)} and {without_password(servers.redis_url)}"
    typer.echo(f"delaybridge: asks the servers of the running {folder}/run.json: {shown}", err=True)
    management = {} if servers.management_url is None else {"management_url": servers.management_url}
    return {"amqp_url": servers.amqp_url, "redis_url": servers.redis_url, **management}
