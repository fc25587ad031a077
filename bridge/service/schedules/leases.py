"""Reads schedules, and saves them under a lease. The Redis of the default pool keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from bridge.model.errors import Conflict, NotFound, StoreUnavailable, Unavailable
from bridge.service.schedules.definition import Schedule, Spec, progress_json, read_schedule, spec_json, template_json
from bridge.service.schedules.ticks import Overlap
from bridge.service.schedules.timing import tick_id
from bridge.store.kept.schedules import MOST, Full, Lease, Lost, StoredSchedules

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

PAUSE_S: Final = 0.05
_TRIES: Final = 100

Check = Callable[[Spec], None]
"""A function that gets a schedule's spec. It raises an error if the caller may not make or change such a schedule, or
send its message."""


class LeasedSchedules:
    """The base of classes that read and change schedules. Every method raises StoreUnavailable if Redis does not
    answer."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self.stored = stored_schedules(pools)

    async def get(self, name: str) -> Schedule:
        """Returns one schedule.

        Raises:
            NotFound: there is no schedule of this name.
        """
        stored = await self.stored.get(name)
        if stored is None:
            raise NotFound(f"there is no schedule {name!r}")
        return read_schedule(stored)

    async def now_ms(self) -> int:
        """Returns the time by the clock of Redis, in Unix ms."""
        store = self._pools.default.context.store
        if not store.clock.known:
            await store.learn_clock()
        return int(store.clock.now_ms())

    @asynccontextmanager
    async def _leased(self, name: str) -> AsyncIterator[Lease]:
        """Leases the schedule for the context. If another process has leased it, waits up to five seconds.

        Raises:
            StoreUnavailable: the other process kept the lease too long, or this lease ended during the context.
            Conflict: there are too many schedules.
        """
        lease = await self._lease(name)
        try:
            yield lease
        except Full:
            await self.stored.leave(lease)
            raise Conflict(f"there are {MOST} schedules, which is the limit: remove one") from None
        except Lost:
            raise StoreUnavailable(f"the change of the schedule {name!r} took too long: try again") from None
        except Unavailable:
            raise
        except Exception:
            await self.stored.leave(lease)
            raise

    async def _lease(self, name: str) -> Lease:
        for _ in range(_TRIES):
            if (lease := await self.stored.lease(name)) is not None:
                return lease
            await asyncio.sleep(PAUSE_S)
        raise StoreUnavailable(f"somebody else changes the schedule {name!r}: try again")

    async def _found(self, name: str) -> Schedule | None:
        stored = await self.stored.get(name)
        return None if stored is None else read_schedule(stored)

    async def _checked(self, name: str, check: Check) -> Schedule:
        schedule = await self.get(name)
        check(schedule.spec)
        return schedule

    async def _save(self, lease: Lease, schedule: Schedule, *, spec: Spec | None = None, leave: bool = True) -> None:
        template = None if spec is None else spec.template
        await self.stored.save(
            lease,
            state=progress_json(schedule.progress),
            wake_ms=schedule.wake_ms if leave else lease.until_ms,
            leave=leave,
            spec=b"" if spec is None else spec_json(spec),
            message=b"" if template is None else template_json(template),
        )


def stored_schedules(pools: Pools, *, of_loops: bool = False) -> StoredSchedules:
    """Returns the object that reads and writes schedules in Redis. `of_loops`: it uses the connections of the loops,
    and not those of requests."""
    context = pools.default.loops_context if of_loops else pools.default.context
    return StoredSchedules(context.store, context.records.keys)


async def former_lives(pools: Pools, schedule: Schedule) -> bool:
    """Whether the message of the schedule's previous tick has not ended. False if no tick was sent yet. Also False,
    without a look-up, if the schedule's overlap rule allows overlaps.

    Raises:
        StoreUnavailable: Redis did not answer.
    """
    last_ms = schedule.progress.last_ms
    if schedule.spec.rules.overlap is Overlap.ALLOW or not last_ms:
        return False
    lookup = pools.serving(schedule.spec.topic).lookup
    (message,) = await lookup.get_many(schedule.spec.topic, [tick_id(schedule.name, last_ms)])
    return message is not None and not message.record.state.ended
