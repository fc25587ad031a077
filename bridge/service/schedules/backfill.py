"""Sends the messages of a schedule's ticks in a past period. Ticks whose messages were sent before are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from bridge.model.errors import BridgeError, Conflict, InvalidRequest
from bridge.service.schedules.definition import Schedule
from bridge.service.schedules.leases import Check, LeasedSchedules
from bridge.service.schedules.spans import Span, added, covered
from bridge.service.schedules.ticks import is_decided
from bridge.service.schedules.timing import Tick, between, tick_id

MOST_BACKFILLED: Final = 1_000
"""The most ticks of one backfill."""
MOST_SPANS: Final = 100
"""The most separate periods that the backfills of a schedule may cover."""

_GROUP: Final = 250


@dataclass(frozen=True, kw_only=True, slots=True)
class Backfilled:
    """The result of a backfill. `ticks`: how many ticks the period has. `sent`: how many of them were sent now; the
    others were sent before. `to_ms`: the end of the period, in Unix ms. It is at most now, and at most the moment up to
    which the schedule is planned, whatever the caller asked for."""

    ticks: int
    sent: int
    to_ms: int


class Backfills(LeasedSchedules):
    """Sends past ticks of schedules. Every method raises StoreUnavailable if Redis does not answer."""

    async def backfill(self, name: str, from_ms: int, to_ms: int, check: Check) -> Backfilled:
        """Sends the ticks of a past period, both ends included, and returns how many were sent. Ticks that were sent
        before are not sent again. `from_ms`, `to_ms`: the ends of the period, in Unix ms. `check`: refuses schedules
        that the caller may not use.

        Raises:
            NotFound: there is no schedule of this name.
            InvalidRequest: the period has more than `MOST_BACKFILLED` ticks, or begins in the future, or ends before it
                begins.
            Conflict: backfills have covered `MOST_SPANS` separate periods, or the schedule was changed meanwhile.
            Unavailable: a server did not answer; some ticks may be sent. Call the method again.
            BridgeError: the error of `check`.
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
            raise Conflict(f"backfills have covered {MOST_SPANS} separate periods, which is the limit: join some")
        sent = 0
        for start in range(0, len(ticks), _GROUP):
            sent += await self._fill(schedule, ticks[start : start + _GROUP], check)
        async with self._leased(name) as lease:
            latest = await self._checked(name, check)
            if latest.spec.timing == schedule.spec.timing:
                latest = latest.but(filled=added(latest.progress.filled, span))
            await self._save(lease, latest)
        return Backfilled(ticks=len(ticks), sent=sent, to_ms=span.to_ms)

    async def _fill(self, read: Schedule, ticks: Sequence[Tick], check: Check) -> int:
        """Sends the ticks that were not sent before. Returns how many it sent. `read`: the schedule that gave these
        ticks."""
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
