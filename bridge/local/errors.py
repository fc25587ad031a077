"""Defines the error of local servers."""

from __future__ import annotations

import shutil


class LocalError(Exception):
    """A local server is missing, did not start or is not running; the message says what to do."""


def require_program(program: str, package: str) -> str:
    """Returns the program's full path.

    Raises:
        LocalError: the program is missing; the text has the command that installs it.
    """
    path = shutil.which(program)
    if path is None:
        raise LocalError(
            f"{program} is not installed. On Debian: sudo apt-get install --no-install-recommends {package}"
        )
    return path
