"""Keeps schedules: makes, changes, pauses and removes them.

Each change leases its schedule, and so does each planner. So no planner sends a tick while a change deletes planned
ticks. A planner that was frozen does not send a deleted tick later either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bridge.model.errors import Conflict, InvalidRequest, NotFound
from bridge.model.message import Message, State
from bridge.model.values import Sent
from bridge.service.reading.cursors import make_topic_cursor, read_topic_cursor
from bridge.service.schedules.definition import Progress, Schedule, Spec, read_schedule
from bridge.service.schedules.leases import PAUSE_S, Check, LeasedSchedules, former_lives
from bridge.service.schedules.ticks import is_decided, owed
from bridge.service.schedules.timing import Tick, following, tick_id
from bridge.service.sending.targets import check_target
from bridge.service.topics.maker import Maker
from bridge.store.kept.schedules import Lease


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulePage:
    items: list[Schedule]
    next_cursor: str | None


class Schedules(LeasedSchedules):
    """Makes, changes, pauses and removes the schedules of all pools. Every method raises StoreUnavailable if Redis does
    not answer."""

    async def page(self, *, sees: Callable[[str], bool], limit: int, cursor: str | None) -> SchedulePage:
        """Returns a page of schedules by name, without their messages. `sees`: returns whether the caller may see a
        topic. `cursor`: the `next_cursor` of the previous page; None: the first page.

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
        """Makes or changes a schedule. Returns the schedule, and whether it is new. If it has this spec already,
        nothing changes.

        A change withdraws the ticks that were sent ahead. If the timing stays, these ticks are sent again with the new
        message. `who`: the id of the token that asks for the schedule, or a word for a caller without a token. `check`:
        refuses schedules that the caller may not use. `maker`: a client with a limited number of topics; None: no
        limit.

        Raises:
            InvalidRequest: the schedule never ticks again, or its target is the default exchange or one of the bridge's
                own.
            Conflict: there are 1,000 schedules, which is the limit.
            Unavailable: RabbitMQ did not declare the topic's queue, or a server did not answer.
            BridgeError: the error of `check`; or `maker` may make no more topics.
        """
        check(spec)
        declared = self._pools.serving(spec.topic).context.broker.declared
        check_target(declared, spec.target, "message.to.exchange")
        if not following(spec.timing, name, await self.now_ms(), 1):
            field, given = ("cron", spec.timing.cron) if spec.timing.cron else ("every", spec.timing.every_ms)
            raise InvalidRequest.of(field, given, "a tick that is still to come", "never ticks from now on")
        if (standing := await self._found(name)) is not None:
            check(standing.spec)  # checked here, so that no topic is made for a caller that is refused
        await self._pools.serving(spec.topic).topics.used(spec.topic, maker)
        async with self._leased(name) as lease:
            former = await self._found(name)
            if former is None:
                begin = Progress(created_ms=lease.now_ms, since_ms=lease.now_ms, position_ms=lease.now_ms, who=who)
                schedule = Schedule(name=name, spec=spec, progress=begin)
            else:
                check(former.spec)
                if former.spec == spec:
                    await self._save(lease, former)
                    return former, False
                schedule = replace(await self._changed(lease, former, spec, who), spec=spec)
            await self._save(lease, schedule, spec=spec)
        return schedule, former is None

    async def pause(self, name: str, check: Check) -> Schedule:
        """Pauses a schedule, and returns it. Once this returns, no tick fires. Ticks of the pause do not count as
        missed. Idempotent. `check`: refuses a schedule that the caller may not use.

        Raises:
            NotFound: there is no schedule of this name.
            BridgeError: the error of `check`.
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
        """Ends the pause of a schedule, and returns the schedule. Only ticks from now on fire. Idempotent. `check`:
        refuses a schedule that the caller may not use.

        Raises:
            NotFound: there is no schedule of this name.
            BridgeError: the error of `check`.
        """
        async with self._leased(name) as lease:
            schedule = await self._checked(name, check)
            if schedule.progress.is_paused:
                now_ms = lease.now_ms
                schedule = schedule.but(is_paused=False, since_ms=now_ms, position_ms=now_ms, planned=(), unsent=())
            await self._save(lease, schedule)
        return schedule

    async def remove(self, name: str, check: Check) -> Schedule:
        """Removes a schedule, and returns it. Once this returns, no tick fires. Messages of past ticks stay. `check`:
        refuses a schedule that the caller may not use.

        Raises:
            NotFound: there is no schedule of this name.
            BridgeError: the error of `check`.
        """
        async with self._leased(name) as lease:
            schedule = await self._checked(name, check)
            schedule = schedule.but(is_paused=True, since_ms=lease.now_ms, unsent=())
            await self._save(lease, schedule, leave=False)
            await self._withdrawn(schedule, schedule.waiting(lease.now_ms), lease.now_ms)
            await self.stored.remove(lease)
        return schedule

    async def trigger(self, name: str, check: Check) -> Sent:
        """Sends the message of the schedule now, and returns the result of the send. Does so even if the schedule is
        paused or the previous tick's message has not ended. `check`: refuses a schedule that the caller may not use.

        Raises:
            NotFound: there is no schedule of this name.
            Unavailable: a server did not answer; the message may be sent or not.
            BridgeError: the error of `check`.
        """
        schedule = await self._checked(name, check)
        now_ms, service = await self.now_ms(), self._pools.serving(schedule.spec.topic)
        return await service.sending.send(schedule.draft(tick_id(name, now_ms), now_ms))

    async def _changed(self, lease: Lease, former: Schedule, spec: Spec, who: str) -> Schedule:
        """Withdraws the planned ticks of the old schedule. Returns the schedule with the progress from which the new
        spec begins."""
        planned = tuple(sorted({*former.waiting(lease.now_ms), *former.progress.unsent}))
        # If this process dies here, the old schedule goes on, and sends the ticks again that are withdrawn by then.
        await self._save(lease, former.but(unsent=planned, since_ms=lease.now_ms), leave=False)
        withdrawn = await self._withdrawn(former, planned, lease.now_ms)
        changed = former.but(who=who, since_ms=lease.now_ms, unsent=withdrawn, planned=withdrawn, failure="")
        if former.spec.timing != spec.timing:
            return (await self._owing(lease, former, changed)).but(filled=())
        return changed if former.spec.topic == spec.topic else changed.but(filled=())

    async def _owing(self, lease: Lease, former: Schedule, changed: Schedule) -> Schedule:
        """Returns the changed schedule, whose new timing begins now. Unless it is paused, it still has to send past
        ticks of the old timing: ticks that were withdrawn, and ticks that were never planned."""
        now_ms, progress = lease.now_ms, changed.progress
        passed = tuple(tick for tick in progress.unsent if tick.at_ms <= now_ms)
        if progress.is_paused:
            return changed.but(position_ms=now_ms, unsent=(), planned=())
        decided = owed(
            former.spec.timing,
            former.spec.rules,
            former.name,
            progress.position_ms,
            now_ms,
            former_lives=await former_lives(self._pools, former),
        )
        unsent = tuple(sorted({*passed, *decided.ticks}))
        return changed.but(
            position_ms=now_ms,
            unsent=unsent,
            planned=unsent,
            missed=progress.missed + decided.missed,
            overlapped=progress.overlapped + decided.overlapped,
        )

    async def _withdrawn(self, schedule: Schedule, ticks: Sequence[Tick], now_ms: int) -> tuple[Tick, ...]:
        """Deletes the messages of ticks that have not fired. Returns the ticks that this has withdrawn. A tick that
        fires just now, or whose message a client has deleted, is not among them."""
        service, topic = self._pools.serving(schedule.spec.topic), schedule.spec.topic
        ids = schedule.ids(ticks)
        found = await service.lookup.get_many(topic, ids)

        async def withdrawn(tick: Tick, message_id: str, message: Message | None) -> bool:
            if message is not None and tick.due_ms <= now_ms:
                # The tick has fired, unless an earlier change has withdrawn it.
                return not is_decided(message, schedule.progress.since_ms)
            created_ms = None if message is None else message.record.created_ms
            try:
                # Also called if no message was found: there may be an unconfirmed record, which look-ups do not show.
                await service.changing.delete(topic, message_id, release=True, created_ms=created_ms)
            except NotFound:
                return True  # the tick was not sent, and can't be sent any more
            except Conflict:
                await asyncio.sleep(PAUSE_S)  # the tick fires within milliseconds, or has fired
                return False
            # A client may have deleted the message before.
            gone = message is not None and message.record.state is State.DELETED
            return not (gone and is_decided(message, schedule.progress.since_ms))

        results = await asyncio.gather(*map(withdrawn, ticks, ids, found))
        return tuple(tick for tick, is_withdrawn in zip(ticks, results, strict=True) if is_withdrawn)
