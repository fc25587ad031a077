"""Estimates Redis' clock from the times in Redis' answers. Sends no command itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Final

from bridge.model.clock_step import STEP_MS

_MOST_STEPS: Final = 4


@dataclass(frozen=True, slots=True)
class ClockStep:
    """A jump of a server's clock. `ahead_ms`: by how many ms the clock jumped ahead; negative for a jump back. `at_s`:
    the moment of `monotonic()` at which this process noticed the jump."""

    server: str
    ahead_ms: float
    at_s: float


class StoreClock:
    """Bounds the difference between Redis' clock and this process's monotonic clock by each answer's round trip.

    `now_ms` is never ahead of Redis, so a message that is due at `now_ms` is also due in Redis. After a jump of Redis'
    clock, the next answer corrects `now_ms`. With several servers, `now_ms` is the time of the slowest clock, so a
    message that is due at `now_ms` is due on all servers. `fastest_ms` is the time of the fastest clock: a later moment
    has passed on no server, apart from the small error of the estimate. `latest_ms` is never behind the clock of any
    server.

    `steps`: the latest jumps of a second or more. NTP corrects a clock gradually, so its corrections are no jumps.
    `overruled`: counts messages that were released more than a second before they were due by Redis' clock. Their
    delays had passed in RabbitMQ.
    """

    def __init__(self) -> None:
        # By server: the lowest and the highest possible difference between its clock and ours.
        self._bounds_ms: dict[str, tuple[float, float]] = {}
        self._low_ms: float | None = None
        self._fastest_ms = 0.0
        self.steps: deque[ClockStep] = deque(maxlen=_MOST_STEPS)
        self.overruled = 0
        self._stepped_ms: dict[str, tuple[float, float]] = {}  # by server: the sum of its jumps, and the lowest so far

    @property
    def ahead_ms(self) -> float:
        """An upper bound, in ms: how far Redis' clock has jumped ahead since any earlier moment, such as a due moment's
        creation.

        Only jumps of a second or more that this process has noticed count. The value is the sum of all jumps, minus the
        lowest value that this sum has had. With several servers, it is the largest of their values.
        """
        return max((stepped_ms - lowest_ms for stepped_ms, lowest_ms in self._stepped_ms.values()), default=0.0)

    @property
    def known(self) -> bool:
        return self._low_ms is not None

    def heard(self, store_ms: int, sent_s: float, received_s: float, server: str = "") -> None:
        """Records the time in one answer of a server. `store_ms`: this time, in Unix ms. `sent_s`, `received_s`: when
        this process sent the command and received the answer, as moments of `monotonic()`. `server`: host and port;
        empty: there is only one server."""
        low, high = store_ms - received_s * 1_000, store_ms + 1 - sent_s * 1_000
        known = self._bounds_ms.get(server)
        if known is not None and low <= known[1] and high >= known[0]:
            low, high = max(low, known[0]), min(high, known[1])
        elif known is not None and known[1] > -inf:
            self._note_step(server, low - known[1] if low > known[1] else high - known[0])
        self._bounds_ms[server] = (low, high)
        if len(self._bounds_ms) == 1:
            self._low_ms = self._fastest_ms = low
        else:
            self._compare()

    def replaced(self, server: str = "") -> None:
        """Reports that another machine has taken a server's place, for example after a failover. The server's next
        answer then replaces the bounds of its clock, and does not count as a jump. `server`: host and port; empty:
        there is only one server."""
        if server in self._bounds_ms:
            self._bounds_ms[server] = (self._bounds_ms[server][0], -inf)

    def only(self, servers: Collection[str]) -> None:
        """Forgets every server that is not in `servers`. If no server in `servers` has answered yet, keeps all
        servers."""
        if kept := {server: bounds for server, bounds in self._bounds_ms.items() if server in servers}:
            self._bounds_ms = kept
            self._stepped_ms = {server: steps for server, steps in self._stepped_ms.items() if server in servers}
            self._compare()

    def now_ms(self) -> float:
        """Returns an estimate of the time of Redis' clock, in Unix ms. The estimate is never ahead of the clock.

        Raises:
            RuntimeError: Redis has not answered yet.
        """
        if self._low_ms is None:
            raise RuntimeError("the store's clock is unknown until Redis has answered: call learn_clock first")
        return monotonic() * 1_000 + self._low_ms

    def latest_ms(self) -> float | None:
        """Returns an estimate of the time of Redis' clock, in Unix ms. The estimate is never behind the clock of any
        server. None: the clock of a server is not known yet."""
        highs_ms = [high_ms for _, high_ms in self._bounds_ms.values()]
        if -inf in highs_ms or not highs_ms:
            return None
        return monotonic() * 1_000 + max(highs_ms)

    def fastest_ms(self, moment_s: float) -> float:
        """Returns an estimate of the time of the fastest of Redis' clocks at a moment of `monotonic()`, in Unix ms. The
        estimate is never ahead of that clock."""
        return moment_s * 1_000 + self._fastest_ms

    def _note_step(self, server: str, ahead_ms: float) -> None:
        """Notes a jump of a server's clock if it is a second or more. `ahead_ms`: the smallest jump that explains the
        answer; negative for a jump back."""
        if abs(ahead_ms) >= STEP_MS:
            self.steps.append(ClockStep(server, ahead_ms, monotonic()))
            stepped_ms, lowest_ms = self._stepped_ms.get(server, (0.0, 0.0))
            stepped_ms += ahead_ms
            self._stepped_ms[server] = stepped_ms, min(lowest_ms, stepped_ms)

    def _compare(self) -> None:
        lows_ms = [low_ms for low_ms, _ in self._bounds_ms.values()]
        self._low_ms, self._fastest_ms = min(lows_ms), max(lows_ms)
