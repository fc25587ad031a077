"""Redis' clock as seen from here, without asking: answers carry its time, the process measures differences."""

from __future__ import annotations

from time import monotonic


class StoreClock:
    """Bounds the difference between Redis' clock and this process's monotonic one by each answer's round trip.

    `now_ms` never runs ahead of Redis, so what is due by it is due in Redis too. A jump of Redis' clock is followed
    with the next answer.
    """

    def __init__(self) -> None:
        self._low_ms: float | None = None  # Redis' clock minus ours is at least this
        self._high_ms = 0.0  # and at most this

    @property
    def known(self) -> bool:
        return self._low_ms is not None

    def heard(self, store_ms: int, sent_s: float, received_s: float) -> None:
        """Takes in one answer: its time, and the monotonic moments of the question and the answer."""
        low, high = store_ms - received_s * 1_000, store_ms + 1 - sent_s * 1_000
        if self._low_ms is None or low > self._high_ms or high < self._low_ms:
            self._low_ms, self._high_ms = low, high
        else:
            self._low_ms, self._high_ms = max(low, self._low_ms), min(high, self._high_ms)

    def now_ms(self) -> float:
        """Unix milliseconds by Redis' clock, or a little less.

        Raises:
            RuntimeError: Redis was not heard of yet.
        """
        if self._low_ms is None:
            raise RuntimeError("the store's clock is read before the store was first asked")
        return monotonic() * 1_000 + self._low_ms
