"""Moves options to where a command takes them, so users may write them before or after the command's name. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# The options of every client command, and whether each takes a value.
_SHARED: Final = dict.fromkeys(("--url", "--token", "--ca", "--cert", "--key"), True) | {"--json": False}


def behind_command(arguments: list[str], default: str | None = None) -> list[str]:
    """Moves the options that all client commands share, such as `--url`, from before the command's name to behind it.
    Returns all arguments. `default`: the command if the arguments name none; None: there is no default."""
    moved, rest = [], list(arguments)
    while rest and rest[0].partition("=")[0] in _SHARED:
        moved.append(rest.pop(0))
        if _SHARED.get(moved[-1]) and rest:
            moved.append(rest.pop(0))
    named = bool(rest) and not rest[0].startswith("-")
    if named:
        return [rest[0], *moved, *rest[1:]]
    if default is None or "--help" in rest:
        return rest
    return [default, *moved, *rest]


def before_command(arguments: list[str], options: Mapping[str, bool]) -> list[str]:
    """Moves options to the front, each with its value, and returns all arguments. `options`: for the name of each
    option to move, whether it is a flag, which has no value."""
    moved, rest = taken_out(arguments, options)
    return [*moved, *rest]


def taken_out(arguments: list[str], options: Mapping[str, bool]) -> tuple[list[str], list[str]]:
    """Returns two lists: the given options with their values, and all other arguments. `options`: for the name of each
    option, whether it is a flag, which has no value."""
    moved: list[str] = []
    rest: list[str] = []
    waiting = list(arguments)
    while waiting and waiting[0] != "--":
        word = waiting.pop(0)
        name, has_value, _ = word.partition("=")
        (moved if name in options else rest).append(word)
        if name in options and not options[name] and not has_value and waiting:
            moved.append(waiting.pop(0))
    return moved, [*rest, *waiting]
