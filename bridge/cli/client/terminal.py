"""Prints rich's tables on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text


class Terminal:
    """Prints tables with bold headings. A long text continues on the next line of its cell."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._live: Live | None = None

    def fields(self, fields: Mapping[str, str]) -> None:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        for name, value in fields.items():
            table.add_row(Text(name), Text(value))
        self._console.print(table)

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self._console.print(_table(heads, rows))

    def redraw(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        self._live.update(_table(heads, rows), refresh=True)

    def stop(self) -> None:
        if self._live is not None:
            self._live.stop()


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for head in heads:
        table.add_column(Text(head, style="bold"), overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))  # a plain string could hold rich's markup
    return table
