"""The option `--pool` of the commands: the settings of one pool."""

from __future__ import annotations

import typer
from pydantic import ValidationError

from bridge.settings.pools import DEFAULT
from bridge.settings.settings import Settings, complaints

HELP = "One of BRIDGE_POOLS."


def settings_of(pool: str) -> Settings:
    """
    Raises:
        BadParameter: the settings are wrong, or there is no such pool.
    """
    try:
        settings = Settings()
    except ValidationError as error:
        raise typer.BadParameter("\n".join(complaints(error))) from None
    names = [DEFAULT, *(settings.pools or {})]
    if pool not in names:
        raise typer.BadParameter(f"there is no pool {pool[:40]!r}, only {', '.join(names)}", param_hint="--pool")
    return settings.of_pool(pool)
