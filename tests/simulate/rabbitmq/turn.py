"""Does at the end of each outer call what belongs there: publisher confirms are written, and clients are woken."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType


class Turn:
    """A context in which the broker works. The outermost one ends with the calls of `at_end`, each once, in order."""

    def __init__(self) -> None:
        self._depth = 0
        self._first: dict[Callable[[], None], None] = {}
        self._last: dict[Callable[[], None], None] = {}

    def at_end(self, call: Callable[[], None], *, last: bool = False) -> None:
        """Calls `call` at the end. `last`: after the calls that may still write."""
        (self._last if last else self._first)[call] = None

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._depth -= 1
        while not self._depth and (self._first or self._last):
            calls = self._first or self._last
            call = next(iter(calls))
            del calls[call]
            call()
