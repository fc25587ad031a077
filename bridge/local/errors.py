"""What can go wrong with a local server."""

from __future__ import annotations

import shutil


class LocalError(Exception):
    """A local server is missing, did not start or is not running; the message says what to do."""


def require_program(program: str, package: str) -> str:
    """The program's full path; LocalError with the command that installs it where there is none."""
    path = shutil.which(program)
    if path is None:
        raise LocalError(
            f"{program} is not installed. On Debian: sudo apt-get install --no-install-recommends {package}"
        )
    return path
