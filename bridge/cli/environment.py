"""Finds variables `BRIDGE_…` that neither a bridge nor a client command reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bridge.settings.unknown import CONFIG, CREDENTIALS_DIR, OF_CLIENTS, PREFIX, complaints_about_unknown

_CHEAP: Final = {*OF_CLIENTS, CONFIG, f"{PREFIX}LOCAL_DIR"}


def complaints(environment: Mapping[str, str]) -> list[str]:
    """Returns a complaint about each unknown variable, and about each unknown file of secrets or credentials."""
    if all(name in _CHEAP for name in environment if name == CREDENTIALS_DIR or name.upper().startswith(PREFIX)):
        return []
    # This import costs 0.2 s, and the environment of most clients has none of its variables.
    from bridge.settings.settings import Settings  # noqa: PLC0415

    return complaints_about_unknown(environment, Settings.model_fields)
