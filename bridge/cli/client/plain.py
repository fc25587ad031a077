"""Prints aligned columns without escape codes, for pipes and for terminals with NO_COLOR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import typer

_GAP: Final = "  "


class Plain:
    """Prints plain columns. The headings come only with the first table, so that all further lines of output have the
    form of a row."""

    def __init__(self) -> None:
        self._widths: list[int] = []

    def fields(self, fields: Mapping[str, str]) -> None:
        width = max(map(len, fields), default=0)
        for name, value in fields.items():
            typer.echo(f"{name.ljust(width)}{_GAP}{value}")

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        lines = rows if self._widths else [heads, *rows]
        widths = self._widths or [0] * len(heads)
        self._widths = [max([least, *(len(line[column]) for line in lines)]) for column, least in enumerate(widths)]
        for line in lines:
            typer.echo(_GAP.join(text.ljust(width) for text, width in zip(line, self._widths, strict=True)).rstrip())

    def redraw(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.table(heads, rows)

    def stop(self) -> None:
        pass
