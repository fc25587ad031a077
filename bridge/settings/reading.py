"""Reads the settings: from the environment, from files of secrets, and from a TOML file."""

from __future__ import annotations

import os
from typing import Any, Final

from pydantic import ValidationError

from bridge.model.errors import WrongSettings
from bridge.settings.given import Given, given_settings
from bridge.settings.settings import Settings
from bridge.settings.unknown import PREFIX

SECRETS: Final = frozenset(name for name, field in Settings.model_fields.items() if not field.repr)
"""The settings that hold passwords. No output shows their values."""


def given() -> dict[str, Given]:
    """Returns the settings that an operator has given, by name, as unchecked text with its place (`given.py`).

    Raises:
        WrongSettings: a file can't be read, a TOML key is unknown, or one place gives both a setting and a file for it,
            such as BRIDGE_LEASE and BRIDGE_LEASE_FILE.
    """
    return given_settings(os.environ, Settings.model_fields)


def read(**own: Any) -> Settings:
    """Returns the settings. `own`: values of settings by name, which override the operator's values.

    Raises:
        WrongSettings: a setting is wrong. The text names each such setting and where it is given, and shows no
            password.
    """
    try:
        return Settings(**own)
    except ValidationError as error:
        raise WrongSettings(complaints(error)) from None


def complaints(error: ValidationError) -> list[str]:
    """Returns what is wrong with the settings, one line for each problem. Shows no value that may hold a password."""
    found = given()
    lines = []
    for problem in error.errors():
        message = problem["msg"].removeprefix("Value error, ")
        if not problem["loc"]:
            lines.append(message)
            continue
        name = str(problem["loc"][0])
        origin = found[name].origin if name in found else f"{PREFIX}{name.upper()}"
        value = "" if name in SECRETS else f" (given: {problem['input']!r})"
        lines.append(f"{origin}: {message}{value}")
    return lines
