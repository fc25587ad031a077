"""Reads the settings of the pool that the option `--pool` names."""

from __future__ import annotations

import typer

from bridge.cli.local_servers import local_servers
from bridge.model.errors import WrongSettings
from bridge.settings.pools import DEFAULT
from bridge.settings.reading import read
from bridge.settings.settings import Settings

POOL_HELP = "A pool of BRIDGE_POOLS."


def settings_of(pool: str) -> Settings:
    """Reads the settings, and returns those of the pool.

    Raises:
        BadParameter: the settings are wrong, or there is no such pool.
    """
    return pool_of(read_settings(), pool)


def pool_of(settings: Settings, pool: str) -> Settings:
    """Returns the settings of the pool.

    Raises:
        BadParameter: there is no such pool.
    """
    names = [DEFAULT, *(settings.pools or {})]
    if pool not in names:
        raise typer.BadParameter(
            f"there is no pool {pool[:40]!r}; the pools are {', '.join(names)}", param_hint="--pool"
        )
    return settings.of_pool(pool)


def read_settings() -> Settings:
    """Returns the operator's settings. If these settings name no server, the servers of a running `make run` are used.

    Raises:
        BadParameter: settings are wrong; the text names each wrong setting.
    """
    try:
        return read(**local_servers())
    except WrongSettings as error:
        raise typer.BadParameter(str(error)) from None
