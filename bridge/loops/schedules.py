"""Plans schedules, so that their ticks are sent in time. Every process with the role `checkpoint` runs this loop.

There is no leader: each process leases the schedules that are to be planned next, for a few seconds
(`bridge/service/schedules/planner.py`). A process stores the schedules of the file BRIDGE_SCHEDULES_FILE when it
starts, and again after Redis was emptied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NoReturn

import structlog

from bridge.metrics.schedules import LAG
from bridge.model.errors import BridgeError, Unavailable
from bridge.model.part_state import OK
from bridge.service.health.supervisor import Status, retrying
from bridge.service.schedules.changes import Schedules as Stored
from bridge.service.schedules.definition import Spec
from bridge.service.schedules.leases import stored_schedules
from bridge.service.schedules.planner import Planner

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

log = structlog.get_logger(__name__)

FILE: Final = "file"
"""The value of `Progress.who` for a schedule from the file BRIDGE_SCHEDULES_FILE. No token asked for it."""

_MOST: Final = 50
"""The most schedules that one pass plans."""
_LONGEST_PAUSE_S: Final = 1.0
_SHORTEST_PAUSE_S: Final = 0.02


class Schedules:
    def __init__(self, pools: Pools, declared: Mapping[str, Spec]) -> None:
        """`declared`: the schedules of the file BRIDGE_SCHEDULES_FILE, by name."""
        self._pools = pools
        self._declared = declared
        self._is_begun = False
        self._stored = stored_schedules(pools, of_loops=True)
        self.status = Status("schedules", state=OK)
        self._planner = Planner(pools, self._stored, self.status)

    async def run(self) -> NoReturn:
        """Plans schedules for ever. While Redis or RabbitMQ is away, the loop tries again every second."""
        await retrying(self.status, self._plan)

    async def _plan(self) -> float:
        await self.run_once()
        return await self._pause_s()

    async def run_once(self) -> bool:
        """Plans up to 50 schedules. Returns False if there was none to plan.

        Raises:
            Unavailable: some schedules are not planned. Any process plans them within seconds.
        """
        if self._declared and (not self._is_begun or not await self._stored.file_is_applied()):
            await self._apply()
        leases = await self._stored.take(_MOST)
        if leases:
            await self._planner.plan_many(leases)
        return bool(leases)

    async def _apply(self) -> None:
        """Puts the schedules of the file into Redis. A stored schedule that differs from the file is changed, but a
        paused one stays paused."""
        schedules = Stored(self._pools)
        for name, spec in self._declared.items():
            try:
                await schedules.put(name, spec, who=FILE, check=lambda spec: None)
            except Unavailable:
                raise
            except BridgeError as error:
                log.error("schedule.not_applied", name=name, reason=str(error))  # noqa: TRY400 - says all
        await self._stored.note_file()
        self._is_begun = True

    async def _pause_s(self) -> float:
        """Returns the seconds to wait for the next schedule. Also sets the metric for how late that schedule is."""
        wakes_ms = await self._stored.wakes_ms()
        if wakes_ms is None:
            LAG.set(0)
            return _LONGEST_PAUSE_S
        now_ms = self._pools.default.context.store.clock.latest_ms() or wakes_ms
        left_s = (wakes_ms - now_ms) / 1_000
        LAG.set(max(0.0, -left_s))
        return min(max(left_s, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S)
