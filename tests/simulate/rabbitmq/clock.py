"""Keeps the broker's time, and calls callbacks when their moments come."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush


class Timer:
    """A callback that the clock calls at `moment_ms`, unless it is cancelled before."""

    __slots__ = ("_callback", "cancelled", "moment_ms")

    def __init__(self, moment_ms: float, callback: Callable[[], None]) -> None:
        self.moment_ms = moment_ms
        self.cancelled = False
        self._callback = callback

    def cancel(self) -> None:
        self.cancelled = True

    def call(self) -> None:
        self._callback()


class Clock:
    """The time in Unix ms, which only `advance` moves."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self._timers: list[tuple[float, int, Timer]] = []
        self._made = 0

    def at(self, moment_ms: float, callback: Callable[[], None]) -> Timer:
        """Calls `callback` at `moment_ms`. Timers of one moment are called in the order in which they were made."""
        timer = Timer(moment_ms, callback)
        self._made += 1
        heappush(self._timers, (moment_ms, self._made, timer))
        return timer

    def next_moment_ms(self) -> float | None:
        """Returns the moment of the next timer; None: there is none."""
        while self._timers and self._timers[0][2].cancelled:
            heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def advance(self, now_ms: float) -> None:
        """Calls all timers up to `now_ms`, each at its own moment.

        Raises:
            ValueError: `now_ms` is before the present moment.
        """
        if now_ms < self.now_ms:
            raise ValueError(f"the clock is at {self.now_ms} ms and can't go back to {now_ms} ms")
        while (moment_ms := self.next_moment_ms()) is not None and moment_ms <= now_ms:
            _, _, timer = heappop(self._timers)
            self.now_ms = max(self.now_ms, moment_ms)
            timer.call()
        self.now_ms = now_ms
