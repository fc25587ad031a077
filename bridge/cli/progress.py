"""Shows the progress of long work on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from bridge.cli.counted import counted


@contextmanager
def progress(what: str, done: Callable[[], int]) -> Iterator[None]:
    """Shows on standard error how much is done, four times a second, if standard error is a terminal. `what`: the noun
    behind the number, such as "messages". `done`: returns the number."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with Live(get_renderable=lambda: Text(counted(done(), what)), console=console, transient=True):
        yield
