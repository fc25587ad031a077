"""Knows whether a queue has a leader, and keeps for later what it is asked for without one."""

from __future__ import annotations

from collections.abc import Callable


class Leader:
    """The leader of one queue. `is_there`: without one the queue answers nothing."""

    def __init__(self) -> None:
        self.is_there = True
        self._later: list[Callable[[], None]] = []

    def lose(self) -> None:
        self.is_there = False

    def elect(self) -> None:
        """Does all that the queue was asked for meanwhile."""
        self.is_there = True
        later, self._later = self._later, []
        for call in later:
            call()

    def do(self, call: Callable[[], None]) -> None:
        """Calls `call` now, or when the queue has a leader."""
        if self.is_there:
            call()
        else:
            self._later.append(call)
