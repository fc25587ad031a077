"""Sets the clock of Redis, or of the bridges' machine, ahead or back, and right again after a while."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tests.simulate.faults.target import Fault, Target

_STEPS_MS: Final = (-3_600_000, -20_000, -2_000, -700, 700, 2_000, 20_000, 3_600_000)


class ClockFaults(Target):
    """One clock is wrong at a time: the judge adds up no two differences."""

    _is_wrong = False

    @property
    def kinds(self) -> Mapping[str, Fault]:
        return {
            "set Redis' clock": self._set_redis,
            "set the bridges' clock": self._set_bridges,
        }

    async def _set_redis(self) -> None:
        await self._step(self._redis_ahead)

    async def _set_bridges(self) -> None:
        await self._step(self._bridges_ahead)

    async def _step(self, set_ahead: Callable[[int], None]) -> None:
        if self._is_wrong:
            return
        self._is_wrong = True
        ahead_ms = self._random.choice(_STEPS_MS)
        self._note(f"{ahead_ms} ms ahead")
        self._stage.may_lack_copies = True
        for history in self._histories:
            history.clock(ahead_ms)
        set_ahead(ahead_ms)
        await self._wait(0.5, 5.0)
        set_ahead(0)
        for history in self._histories:
            history.clock(0)
        self._is_wrong = False

    def _redis_ahead(self, ahead_ms: int) -> None:
        self._stage.redis.ahead_ms = ahead_ms

    def _bridges_ahead(self, ahead_ms: int) -> None:
        self._stage.wall_ahead_s = ahead_ms / 1_000
