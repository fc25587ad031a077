"""Reads the settings of the pool that the option `--pool` names."""

from __future__ import annotations

import typer
from pydantic import ValidationError

from bridge.cli.local_servers import local_servers
from bridge.settings.pools import DEFAULT
from bridge.settings.settings import Settings, complaints

POOL_HELP = "A pool of BRIDGE_POOLS."


def settings_of(pool: str) -> Settings:
    """Returns the settings of the pool.

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
    """Returns the settings from the environment. If it names no server: those of a running `make run`.

    Raises:
        BadParameter: names each wrong setting.
    """
    try:
        return Settings(**local_servers())
    except ValidationError as error:
        raise typer.BadParameter("\n".join(complaints(error))) from None
