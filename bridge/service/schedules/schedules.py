"""Keeps schedules: makes, changes, pauses and removes them, and sends ticks that somebody asks for.

Each change has the lease of its schedule, as a planner has. So no planner sends a tick while the planned ones are
deleted, and none that was frozen does so later.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from bridge.model.errors import BridgeError, Conflict, InvalidRequest, NotFound, StoreUnavailable, Unavailable
from bridge.model.message import Message, State
from bridge.model.values import Sent
from bridge.service.cursors import make_topic_cursor, read_topic_cursor
from bridge.service.maker import Maker
from bridge.service.schedules.plan import is_decided
from bridge.service.schedules.schedule import (
    Progress,
    Schedule,
    Spec,
    progress_json,
    read_schedule,
    spec_json,
    template_json,
)
from bridge.service.schedules.spans import Span, added, covered
from bridge.service.schedules.timing import Tick, between, following, tick_id
from bridge.store.schedules import MOST, Full, Lease, Lost, StoredSchedules

if TYPE_CHECKING:
    from bridge.service.pools import Pools

MOST_BACKFILLED: Final = 1_000
"""The ticks of one backfill."""
MOST_SPANS: Final = 100
"""The separate times that backfills may cover."""

_PAUSE_S: Final = 0.05
_TRIES: Final = 100
_GROUP: Final = 250

Check = Callable[[str], None]
"""Raises if the caller may not use this topic."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Backfilled:
    """`ticks`: the ticks of the time. `sent`: those that were sent now; the others were sent before."""

    ticks: int
    sent: int
    to_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulePage:
    items: list[Schedule]
    next_cursor: str | None


class Schedules:
    """The schedules of all pools. The Redis of the default pool keeps them. Every method raises StoreUnavailable."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self.stored = stored_schedules(pools)

    async def get(self, name: str) -> Schedule:
        """One schedule.

        Raises:
            NotFound
        """
        stored = await self.stored.get(name)
        if stored is None:
            raise NotFound(f"there is no schedule {name!r}")
        return read_schedule(stored)

    async def page(self, *, sees: Callable[[str], bool], limit: int, cursor: str | None) -> SchedulePage:
        """A page of schedules by name, without their messages. `sees`: whether the caller may see a topic.

        Raises:
            InvalidRequest: no page gave this cursor.
        """
        after = "" if cursor is None else read_topic_cursor(cursor)
        names = [name for name in await self.stored.names() if name > after]
        found = await self.stored.get_many(names, messages=False)
        known = (read_schedule(stored) for stored in found if stored is not None)
        shown = [schedule for schedule in known if sees(schedule.spec.topic)]
        items = shown[:limit]
        return SchedulePage(items=items, next_cursor=make_topic_cursor(items[-1].name) if len(shown) > limit else None)

    async def put(
        self, name: str, spec: Spec, *, who: str, check: Check, maker: Maker | None = None
    ) -> tuple[Schedule, bool]:
        """Makes or changes a schedule. Returns it, and whether it is new. The same once more changes nothing.

        A change withdraws the ticks that were sent ahead. If only the message is another one, they are sent with it.

        Raises:
            InvalidRequest: it never ticks again.
            Conflict: there are too many schedules.
            BridgeError: of `check`, or the refusal of the maker.
        """
        check(spec.topic)
        if not following(spec.timing, name, await self.now_ms(), 1):
            field, given = ("cron", spec.timing.cron) if spec.timing.cron else ("every", spec.timing.every_ms)
            raise InvalidRequest.of(field, given, "a tick that is still to come", "never ticks from now on")
        if (standing := await self._found(name)) is not None:
            check(standing.spec.topic)  # before it makes a topic for a caller that is refused
        await self._pools.serving(spec.topic).topics.used(spec.topic, maker)
        async with self._leased(name) as lease:
            former = await self._found(name)
            if former is None:
                begin = Progress(created_ms=lease.now_ms, since_ms=lease.now_ms, position_ms=lease.now_ms, who=who)
                schedule = Schedule(name=name, spec=spec, progress=begin)
            else:
                check(former.spec.topic)
                if former.spec == spec:
                    await self._save(lease, former)
                    return former, False
                schedule = replace(await self._changed(lease, former, spec, who), spec=spec)
            await self._save(lease, schedule, spec=spec)
        return schedule, former is None

    async def pause(self, name: str, check: Check) -> Schedule:
        """Pauses a schedule. No tick fires once it has returned, and none is missed meanwhile. Idempotent.

        Raises:
            NotFound, or an error of `check`
        """
        async with self._leased(name) as lease:
            schedule = await self._checked(name, check)
            if not schedule.progress.is_paused or schedule.progress.planned:
                schedule = schedule.but(is_paused=True, since_ms=lease.now_ms, unsent=())
                await self._save(lease, schedule, leave=False)
                await self._withdrawn(schedule, schedule.waiting(lease.now_ms), lease.now_ms)
                schedule = schedule.but(planned=())
            await self._save(lease, schedule)
        return schedule

    async def resume(self, name: str, check: Check) -> Schedule:
        """Ends a pause. The ticks from now on fire. Idempotent.

        Raises:
            NotFound, or an error of `check`
        """
        async with self._leased(name) as lease:
            schedule = await self._checked(name, check)
            if schedule.progress.is_paused:
                now_ms = lease.now_ms
                schedule = schedule.but(is_paused=False, since_ms=now_ms, position_ms=now_ms, planned=(), unsent=())
            await self._save(lease, schedule)
        return schedule

    async def remove(self, name: str, check: Check) -> Schedule:
        """Removes a schedule. No tick fires once it has returned. Messages of former ticks stay.

        Raises:
            NotFound, or an error of `check`
        """
        async with self._leased(name) as lease:
            schedule = await self._checked(name, check)
            schedule = schedule.but(is_paused=True, since_ms=lease.now_ms, unsent=())
            await self._save(lease, schedule, leave=False)
            await self._withdrawn(schedule, schedule.waiting(lease.now_ms), lease.now_ms)
            await self.stored.remove(lease)
        return schedule

    async def trigger(self, name: str, check: Check) -> Sent:
        """Sends the message of the schedule now, also while it is paused, and whatever became of the former tick.

        Raises:
            NotFound, Unavailable, or an error of `check`
        """
        schedule = await self._checked(name, check)
        now_ms, service = await self.now_ms(), self._pools.serving(schedule.spec.topic)
        return await service.sending.send(schedule.draft(tick_id(name, now_ms), now_ms))

    async def backfill(self, name: str, from_ms: int, to_ms: int, check: Check) -> Backfilled:
        """Sends the ticks of a time that is over, both ends included. Those that were sent before are not sent again.

        Raises:
            NotFound, or an error of `check`
            InvalidRequest: the time has too many ticks, or begins in the future, or ends before it begins.
            Conflict: backfills have covered too many separate times.
            Unavailable: some ticks may be sent. Call it again.
        """
        async with self._leased(name) as lease:
            schedule = await self._checked(name, check)
            await self.stored.leave(lease)
        span = Span(from_ms, min(to_ms, lease.now_ms, schedule.progress.position_ms))
        if to_ms < from_ms:
            raise InvalidRequest.of("to", to_ms, from_ms, "must not be before `from`")
        if span.to_ms < from_ms:
            raise InvalidRequest.of("from", from_ms, lease.now_ms, "must be in the past")
        ticks = list(islice(between(schedule.spec.timing, name, from_ms - 1, span.to_ms), MOST_BACKFILLED + 1))
        if len(ticks) > MOST_BACKFILLED:
            text = f"leads to more than {MOST_BACKFILLED} ticks: give an earlier moment, and go on behind it"
            raise InvalidRequest.of("to", to_ms, MOST_BACKFILLED, text)
        if len(added(schedule.progress.filled, span)) > MOST_SPANS:
            raise Conflict(f"backfills have covered {MOST_SPANS} separate times, which is the limit: join some")
        sent = 0
        for start in range(0, len(ticks), _GROUP):
            sent += await self._fill(schedule, ticks[start : start + _GROUP], check)
        async with self._leased(name) as lease:
            latest = await self._checked(name, check)
            if latest.spec.timing == schedule.spec.timing:
                latest = latest.but(filled=added(latest.progress.filled, span))
            await self._save(lease, latest)
        return Backfilled(ticks=len(ticks), sent=sent, to_ms=span.to_ms)

    async def now_ms(self) -> int:
        """The moment by the clock of Redis."""
        store = self._pools.default.context.store
        if not store.clock.known:
            await store.learn_clock()
        return int(store.clock.now_ms())

    async def _fill(self, read: Schedule, ticks: Sequence[Tick], check: Check) -> int:
        """Sends those that were not sent before. Returns how many. `read`: the schedule whose ticks they are."""
        async with self._leased(read.name) as lease:
            schedule = await self._checked(read.name, check)
            if schedule.spec != read.spec:
                raise Conflict(f"the schedule {read.name!r} was changed meanwhile: look, and begin again")
            wanted = [tick for tick in ticks if not covered(schedule.progress.filled, tick.at_ms)]
            service, topic = self._pools.serving(schedule.spec.topic), schedule.spec.topic
            found = await service.lookup.get_many(topic, schedule.ids(wanted))
            drafts = [
                schedule.draft(tick_id(schedule.name, tick.at_ms), lease.now_ms)
                for tick, message in zip(wanted, found, strict=True)
                if not is_decided(message, schedule.progress.since_ms)
            ]
            for result in await service.sending.send_many(drafts, by_s=lease.until_s):
                if isinstance(result, BridgeError):
                    raise result
            await self._save(lease, schedule.but(sent=schedule.progress.sent + len(drafts)))
        return len(drafts)

    async def _changed(self, lease: Lease, former: Schedule, spec: Spec, who: str) -> Schedule:
        """Withdraws the planned ticks of the former form. Returns what the new form begins with."""
        planned = tuple(sorted({*former.waiting(lease.now_ms), *former.progress.unsent}))
        # If nobody gets further, the former form goes on, and sends the ticks again that are withdrawn by then.
        await self._save(lease, former.but(unsent=planned, since_ms=lease.now_ms), leave=False)
        withdrawn = await self._withdrawn(former, planned, lease.now_ms)
        changed = former.but(who=who, since_ms=lease.now_ms, unsent=withdrawn, planned=withdrawn, failure="")
        if former.spec.timing != spec.timing:
            return changed.but(position_ms=lease.now_ms, unsent=(), planned=(), filled=())
        return changed if former.spec.topic == spec.topic else changed.but(filled=())

    async def _withdrawn(self, schedule: Schedule, ticks: Sequence[Tick], now_ms: int) -> tuple[Tick, ...]:
        """Deletes the messages of ticks that have not fired. Returns these ticks. One that fires just now is none."""
        service, topic = self._pools.serving(schedule.spec.topic), schedule.spec.topic
        ids = schedule.ids(ticks)
        found = await service.lookup.get_many(topic, ids)

        async def withdrawn(tick: Tick, message_id: str, message: Message | None) -> bool:
            if message is not None and tick.due_ms <= now_ms:
                return False
            created_ms = None if message is None else message.record.created_ms
            try:
                # A record that is not confirmed is not found, and is deleted all the same.
                await service.changing.delete(topic, message_id, release=True, created_ms=created_ms)
            except NotFound:
                return True  # it was not sent, and can't be any more
            except Conflict:
                await asyncio.sleep(_PAUSE_S)  # it fires within milliseconds, or has fired
                return False
            # Somebody else may have deleted it before.
            gone = message is not None and message.record.state is State.DELETED
            return not (gone and is_decided(message, schedule.progress.since_ms))

        results = await asyncio.gather(*map(withdrawn, ticks, ids, found))
        return tuple(tick for tick, is_withdrawn in zip(ticks, results, strict=True) if is_withdrawn)

    @asynccontextmanager
    async def _leased(self, name: str) -> AsyncIterator[Lease]:
        """Has the lease of the schedule within the context. It waits for a planner that has it.

        Raises:
            StoreUnavailable: somebody had it too long, or took it over.
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
            await asyncio.sleep(_PAUSE_S)
        raise StoreUnavailable(f"somebody else changes the schedule {name!r}: try again")

    async def _found(self, name: str) -> Schedule | None:
        stored = await self.stored.get(name)
        return None if stored is None else read_schedule(stored)

    async def _checked(self, name: str, check: Check) -> Schedule:
        schedule = await self.get(name)
        check(schedule.spec.topic)
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
    """The schedules in Redis. `of_loops`: over the connections of the loops."""
    context = pools.default.loops_context if of_loops else pools.default.context
    return StoredSchedules(context.store, context.records.keys)
