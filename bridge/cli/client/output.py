"""Prints answers: as tables on a terminal, as plain columns in a pipe, and as JSON with `--json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, Self

import typer

from bridge.cli.client.answer import Answer
from bridge.cli.client.plain import Plain
from bridge.cli.groups import is_styled

_LONGEST_CELL: Final = 60  # characters; `get` and `--json` show all of a body


class View(Protocol):
    """A form of the output: `Terminal` or `Plain`. Callers pass no text with control characters."""

    def fields(self, fields: Mapping[str, str]) -> None:
        """Prints one object, a line for each field."""

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Prints a table's rows after the rows of earlier calls."""

    def redraw(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Prints a table's rows over the rows of earlier calls, or after them if the view can't overwrite."""

    def stop(self) -> None:
        """Ends the output: the last table that `redraw` printed stays on the terminal."""


class Output:
    """The output of one command, in the form that fits standard output and the option `--json`."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._view = _view()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._view.stop()

    def show(self, answer: Answer) -> None:
        """Prints one object, without members that are null. With `--json` it prints the bridge's text unchanged."""
        if self.as_json:
            typer.echo(answer.raw)
        else:
            members = flat(answer.value).items()
            self._view.fields({name: line(value) for name, value in members if value is not None})

    def rows(self, answers: Iterable[Answer], columns: Mapping[str, str]) -> None:
        """Prints a list, a row for each object. `columns`: maps the heading of each column to the path of the member
        that it shows, such as `counts.ready`. With `--json` it prints the bridge's text of each object on a line."""
        if self.as_json:
            for answer in answers:
                typer.echo(answer.raw)
        else:
            self.table(list(columns), [cells(answer, columns.values()) for answer in answers])

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self._view.table(heads, rows)

    def redraw(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self._view.redraw(heads, rows)

    def note(self, text: str) -> None:
        """Prints a remark on standard error, where no program reads it as output."""
        typer.echo(text, err=True)


def flat(value: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Returns the members of an object. Members of a nested object get names such as `policy.lease_ms`. `headers` stays
    whole, and a body becomes its JSON text. `before`: the prefix of all names."""
    members: dict[str, Any] = {}
    for name, member in value.items():
        if name == "body":
            members[before + name] = json.dumps(member, ensure_ascii=False)
        elif isinstance(member, dict) and name != "headers":
            members |= flat(member, f"{before}{name}.")
        else:
            members[before + name] = member
    return members


def cells(answer: Answer, paths: Iterable[str]) -> list[str]:
    """Returns the members with these paths as the cells of a row. A body in base64 is marked: `base64:aGVsbG8=`."""
    members = flat(answer.value)
    return [cell(members.get(path, _marked(members.get(f"{path}_base64")))) for path in paths]


def _marked(encoded: str | None) -> str | None:
    return None if encoded is None else f"base64:{encoded}"


def cell(value: Any) -> str:
    """Returns the value as one line of at most 60 characters. A longer line is cut, and ends in `…`."""
    shown = line(value)
    return shown if len(shown) <= _LONGEST_CELL else f"{shown[: _LONGEST_CELL - 1]}…"


def line(value: Any) -> str:
    """Returns the value as one line without control characters, which could steer a terminal."""
    if value is None:
        return "-"
    if isinstance(value, float):
        value = round(value, 3)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _view() -> View:
    if not is_styled():
        return Plain()
    # A pipe does not need rich, which costs much of a command's start.
    from bridge.cli.client.terminal import Terminal  # noqa: PLC0415

    return Terminal()
