"""Limits the rate of requests over all processes together."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.store.calls import Call, plain
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import whole
from bridge.store.scripts import SCRIPTS


@dataclass(frozen=True, slots=True)
class Rate:
    """A limit of `count` requests in each interval, spread evenly. After a time without requests, `burst` requests may
    come at once; None: `count`."""

    count: int
    interval_ms: int = 1_000
    burst: int | None = None


class Rates:
    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def admit(self, whose: str, direction: str, rate: Rate) -> int:
        """Counts one request and returns 0 if the rate admits it. Otherwise it counts nothing, and returns in how many
        ms the rate will admit a request. `whose` and `direction` name the counter, such as a token's id and a scope.

        Raises:
            StoreUnavailable: Redis did not answer, and the request may have been counted.
        """
        (wait_ms,) = await self._store.run([self.call(whose, direction, rate)])
        return wait_ms

    def call(self, whose: str, direction: str, rate: Rate, *, now_us: int | str = "") -> Call[int]:
        """Builds the script call of `admit`. Only tests give `now_us`, to set the clock."""
        args = (now_us, rate.count, rate.interval_ms * 1_000, rate.burst or rate.count)
        return Call(SCRIPTS["admit"], plain(whole), (self._keys.rate(whose, direction),), args)
