"""How often: requests that are counted by all processes together."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.store.calls import Call
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.scripts import SCRIPTS


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` requests in each interval, spread evenly, and up to `burst` at once after a time without; by default as
    many as in an interval."""

    count: int
    interval_ms: int = 1_000
    burst: int | None = None


class Rates:
    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def admit(self, whose: str, direction: str, rate: Rate) -> int:
        """Counts one request more and answers 0, or answers in how many ms one will be admitted, and counts nothing.

        Raises:
            StoreUnavailable: it may have been counted.
        """
        (wait_ms,) = await self._store.run([self.call(whose, direction, rate)])
        return int(wait_ms)

    def call(self, whose: str, direction: str, rate: Rate, *, now_us: int | str = "") -> Call:
        """`now_us` is given by tests alone, which set the clock."""
        args = (now_us, rate.count, rate.interval_ms * 1_000, rate.burst or rate.count)
        return Call(SCRIPTS["admit"], (self._keys.rate(whose, direction),), args)
