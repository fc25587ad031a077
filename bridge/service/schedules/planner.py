"""Plans schedules: sends each tick's message a little before the tick, and saves each schedule's position.

    lease the schedule ──> save the next ticks ──> send those that have no message ──> advance the position

* A planner leases a schedule. Meanwhile no other process sends its ticks or changes it.
* Redis refuses each claim of an id that comes after the end of the lease. So a planner that was frozen sends nothing.
* The ticks are saved before they are sent. So a pause or a change finds and deletes them, whether they were sent or
  not.
* If a planner dies, the next planner finds the saved ticks. It looks for the message of each tick, also for ended
  messages, and sends the ticks that have none. Redis keeps an ended message for the retention time at least.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import structlog

from bridge.metrics.schedules import TICKS
from bridge.model import log_scope
from bridge.model.errors import BridgeError, Unavailable, Unpublishable
from bridge.service.health.supervisor import Status
from bridge.service.schedules.definition import Schedule, progress_json, read_schedule
from bridge.service.schedules.leases import former_lives
from bridge.service.schedules.ticks import is_decided, latest_position_ms, plan
from bridge.service.schedules.timing import tick_id
from bridge.store.kept.schedules import Full, Lease, Lost, StoredSchedules

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

log = structlog.get_logger(__name__)

NO_TOKEN_OF: Final = frozenset(("anybody", "file", ""))
"""The values of `Progress.who` for schedules that no token asked for."""


class Planner:
    def __init__(self, pools: Pools, stored: StoredSchedules, status: Status) -> None:
        """`status`: the loop's status, which shows the bug if a schedule can't be planned."""
        self._pools = pools
        self._stored = stored
        self._status = status

    async def plan_many(self, leases: Sequence[Lease]) -> None:
        """Plans the schedules of these leases, and ends the leases. A bug with one schedule is noted in the loop's
        status, and does not stop the others.

        Raises:
            Unavailable: the error of one schedule, raised after all other schedules were planned. The schedule is
                planned again when its lease has ended.
        """
        results = await asyncio.gather(*(self._plan_as_owner(lease) for lease in leases), return_exceptions=True)
        unavailable: Unavailable | None = None
        for lease, result in zip(leases, results, strict=True):
            if isinstance(result, Unavailable):
                unavailable = result
            elif isinstance(result, Exception):
                self._status.failed(result, item=lease.name)
            else:
                self._status.mended([lease.name])
        if unavailable is not None:
            raise unavailable

    async def _plan_as_owner(self, lease: Lease) -> None:
        try:
            await self._plan(lease)
        except Lost:
            log.info("schedule.lost", name=lease.name)  # the process was slow, and another one goes on
        except Full:
            await self._stored.leave(lease)

    async def _plan(self, lease: Lease) -> None:
        stored = await self._stored.get(lease.name)
        if stored is None:
            await self._stored.leave(lease)
            return
        schedule = read_schedule(stored)
        if schedule.progress.is_paused:
            await self._save(lease, schedule, leave=True)
            return
        # Timelines name the token that asked for the schedule. This task plans no other schedule.
        who = schedule.progress.who
        log_scope.enter_token(log_scope.NOBODY if who in NO_TOKEN_OF else who)
        if not schedule.progress.unsent:
            schedule = await self._decided(lease, _not_ahead(schedule, lease.now_ms))
        if schedule.progress.unsent:
            schedule = await self._sent(lease, schedule)
        await self._save(lease, _not_ahead(schedule, lease.now_ms), leave=True)

    async def _decided(self, lease: Lease, schedule: Schedule) -> Schedule:
        """Decides which of the next ticks are sent, and saves these as unsent. Returns the schedule."""
        progress = schedule.progress
        decided = plan(
            schedule.spec.timing,
            schedule.spec.rules,
            schedule.name,
            progress.position_ms,
            lease.now_ms,
            former_lives=await former_lives(self._pools, schedule),
        )
        TICKS.labels("missed").inc(decided.missed)
        TICKS.labels("overlapped").inc(decided.overlapped)
        schedule = schedule.but(
            position_ms=decided.position_ms,
            unsent=tuple(decided.ticks),
            planned=(*schedule.waiting(lease.now_ms), *decided.ticks),
            missed=progress.missed + decided.missed,
            overlapped=progress.overlapped + decided.overlapped,
        )
        if decided.ticks:
            await self._save(lease, schedule, leave=False)
        return schedule

    async def _sent(self, lease: Lease, schedule: Schedule) -> Schedule:
        """Sends the unsent ticks that have no message yet. Returns the schedule without unsent ticks.

        Raises:
            Unavailable: some ticks may be sent. The next planner goes on with them.
        """
        service, progress, failure = self._pools.serving(schedule.spec.topic), schedule.progress, ""
        ticks = progress.unsent
        found = await service.lookup.get_many(schedule.spec.topic, schedule.ids(ticks))
        drafts = [
            schedule.draft(tick_id(schedule.name, tick.at_ms), tick.due_ms)
            for tick, message in zip(ticks, found, strict=True)
            if not is_decided(message, progress.since_ms)
        ]
        results = await service.sending.send_many(drafts, by_s=lease.until_s) if drafts else []
        refused = 0
        for draft, result in zip(drafts, results, strict=True):
            if isinstance(result, BridgeError):
                if isinstance(result, Unavailable) and not isinstance(result, Unpublishable):
                    raise result
                # A second try of this tick would be refused too.
                refused, failure = refused + 1, str(result)
                log.error("schedule.refused", name=schedule.name, id=draft.id, reason=failure)
        TICKS.labels("refused").inc(refused)
        TICKS.labels("sent").inc(len(ticks) - refused)
        return schedule.but(
            unsent=(),
            last_ms=max(progress.last_ms, *(tick.at_ms for tick in ticks)),
            sent=progress.sent + len(ticks) - refused,
            refused=progress.refused + refused,
            failure=failure or progress.failure,
        )

    async def _save(self, lease: Lease, schedule: Schedule, *, leave: bool) -> None:
        state = progress_json(schedule.progress)
        # Until the ticks are sent, another planner goes on with them at the end of the lease.
        wake_ms = schedule.wake_ms if leave else lease.until_ms
        await self._stored.save(lease, state=state, wake_ms=wake_ms, leave=leave)


def _not_ahead(schedule: Schedule, now_ms: int) -> Schedule:
    """Returns the schedule. If it is planned too far because a clock was ahead, its position is set back to now. Ticks
    of the time ahead that have a message are not sent again."""
    progress = schedule.progress
    if progress.position_ms <= latest_position_ms(schedule.spec.rules, now_ms):
        return schedule
    log.warning("schedule.was_ahead", name=schedule.name, ahead_ms=progress.position_ms - now_ms)
    return schedule.but(position_ms=now_ms, last_ms=min(progress.last_ms, now_ms))
