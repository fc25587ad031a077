"""Defines the error of local servers."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_LONGEST_REASON: Final = 300
"""The most characters of a log's last line in a `reason`."""


class LocalError(Exception):
    """A local server is missing, did not start or is not running; the message says what to do."""


class NotStarted(LocalError):
    """A server ended while it started, or did not answer. The error's text has the end of the server's log. `reason`
    has only the log's last line."""

    def __init__(self, says: str, log_file: Path, last_words: Sequence[str]) -> None:
        end = [f"; the end of {log_file}:", *last_words] if last_words else []
        super().__init__(says + "\n".join(end))
        self.log_file = log_file
        last = next((line.strip()[:_LONGEST_REASON] for line in reversed(last_words) if line.strip()), "")
        self.reason = f"{says}: {last}" if last else says


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
