"""Ends a command with its exit code, and says what each code means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

import typer

DONE: Final = 0
FAILED: Final = 1
WRONG: Final = 2
UNFIT: Final = 3
NOT_FOUND: Final = 4
FORBIDDEN_BY_STATE: Final = 5
NOT_ALLOWED: Final = 6
UNAVAILABLE: Final = 7
INTERRUPTED: Final = 130

MEANINGS: Final[Mapping[int, str]] = {
    DONE: "done",
    FAILED: "failed, or found a fault",
    WRONG: "an option, an argument or a setting is wrong",
    UNFIT: "only `serve` and `restore`: a server can't keep the promises",
    NOT_FOUND: "the bridge has no such topic, message or subscription",
    FORBIDDEN_BY_STATE: "the state of the message, topic or exchange forbids it",
    NOT_ALLOWED: "the token is missing, is not valid, or does not allow it",
    UNAVAILABLE: "the bridge did not answer, or can't do it now: try again",
    INTERRUPTED: "interrupted by Ctrl-C",
}


def end(command: str, reason: str, code: int = FAILED) -> NoReturn:
    """Prints the command's name and the reason on standard error, and ends the command with the exit code `code`."""
    typer.echo(f"delaybridge {command}: {reason}", err=True)
    raise typer.Exit(code)
