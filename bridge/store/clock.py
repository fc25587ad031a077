"""Redis' clock as seen from here, without asking: answers carry its time, the process measures differences."""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from time import monotonic


class StoreClock:
    """Bounds the difference between Redis' clock and this process's monotonic one by each answer's round trip.

    `now_ms` never runs ahead of Redis, so what is due by it is due in Redis too. A jump of Redis' clock is followed
    with the next answer. Where there are several servers, each with a clock of its own, it is the slowest of those
    that were heard: due by it is due by all of them.
    """

    def __init__(self) -> None:
        # By server: its clock minus ours is at least this, and at most this.
        self._bounds_ms: dict[str, tuple[float, float]] = {}
        self._low_ms: float | None = None

    @property
    def known(self) -> bool:
        return self._low_ms is not None

    def heard(self, store_ms: int, sent_s: float, received_s: float, server: str = "") -> None:
        """Takes in one answer: its time, and the monotonic moments of the question and the answer."""
        low, high = store_ms - received_s * 1_000, store_ms + 1 - sent_s * 1_000
        known = self._bounds_ms.get(server)
        if known is not None and low <= known[1] and high >= known[0]:
            low, high = max(low, known[0]), min(high, known[1])
        self._bounds_ms[server] = (low, high)
        self._low_ms = low if len(self._bounds_ms) == 1 else min(known[0] for known in self._bounds_ms.values())

    def replaced(self, server: str = "") -> None:
        """Another machine has taken the server's place: its next answer counts alone."""
        if server in self._bounds_ms:
            self._bounds_ms[server] = (self._bounds_ms[server][0], -inf)

    def only(self, servers: Collection[str]) -> None:
        """Forgets servers that are none of these, unless nothing would be known then."""
        if left := {server: bounds for server, bounds in self._bounds_ms.items() if server in servers}:
            self._bounds_ms = left
            self._low_ms = min(low for low, _ in left.values())

    def now_ms(self) -> float:
        """Unix milliseconds by Redis' clock, or a little less.

        Raises:
            RuntimeError: Redis was not heard of yet.
        """
        if self._low_ms is None:
            raise RuntimeError("the store's clock is read before the store was first asked")
        return monotonic() * 1_000 + self._low_ms
