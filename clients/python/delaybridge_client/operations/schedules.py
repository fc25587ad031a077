"""Describes the HTTP calls on schedules as `Operation` values, without I/O: list, put, pause, backfill and others."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from delaybridge_client.encode import given
from delaybridge_client.operation import Operation, reads, reads_list, reads_nothing, reads_page
from delaybridge_client.values.message import Message
from delaybridge_client.values.page import Page
from delaybridge_client.values.schedule import Backfilled, Missed, Overlap, Schedule, ScheduledMessage, Tick

_SCHEDULES: Final = "/v1/schedules"
_SCHEDULE: Final = "/v1/schedules/{schedule}"


def list_schedules(*, limit: int | None = None, cursor: str | None = None) -> Operation[Page[Schedule]]:
    """Returns a page of schedules by name, without their messages."""
    return Operation(method="GET", path=_SCHEDULES, query=given(limit=limit, cursor=cursor), read=reads_page(Schedule))


def put_schedule(
    schedule: str,
    topic: str,
    message: ScheduledMessage,
    *,
    cron: str | None = None,
    timezone: str | None = None,
    every: timedelta | None = None,
    anchor: datetime | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    jitter: timedelta | None = None,
    missed: Missed | None = None,
    missed_max: int | None = None,
    overlap: Overlap | None = None,
) -> Operation[Schedule]:
    """Makes or replaces a schedule, which sends the message to the topic at each tick. Give `cron` or `every`."""
    return Operation(
        method="PUT",
        path=_SCHEDULE,
        names={"schedule": schedule},
        body={"topic": topic, "message": message.members()}
        | given(
            cron=cron,
            timezone=timezone,
            every=every,
            anchor=anchor,
            start=start,
            end=end,
            jitter=jitter,
            missed=missed,
            missed_max=missed_max,
            overlap=overlap,
        ),
        read=reads(Schedule),
    )


def look_at_schedule(schedule: str) -> Operation[Schedule]:
    """Returns a schedule with its next five ticks."""
    return Operation(method="GET", path=_SCHEDULE, names={"schedule": schedule}, read=reads(Schedule))


def next_ticks(schedule: str, *, count: int | None = None) -> Operation[tuple[Tick, ...]]:
    """Returns the next ticks of a schedule, also of a paused one. `count`: how many, up to 100; None: five."""
    return Operation(
        method="GET",
        path=f"{_SCHEDULE}/next",
        names={"schedule": schedule},
        query=given(count=count),
        read=reads_list(Tick, "items"),
    )


def remove_schedule(schedule: str) -> Operation[None]:
    """Removes a schedule. Once the call returns, no tick fires."""
    return Operation(
        method="DELETE", path=_SCHEDULE, names={"schedule": schedule}, read=reads_nothing, repeatable=False
    )


def pause_schedule(schedule: str) -> Operation[Schedule]:
    """Pauses a schedule. Once the call returns, no tick fires."""
    return _acted(schedule, "pause")


def resume_schedule(schedule: str) -> Operation[Schedule]:
    """Ends the pause of a schedule. The ticks from now on fire."""
    return _acted(schedule, "resume")


def trigger_schedule(schedule: str) -> Operation[Message]:
    """Sends the schedule's message now, even if the schedule is paused."""
    return Operation(
        method="POST",
        path=f"{_SCHEDULE}/trigger",
        names={"schedule": schedule},
        read=reads(Message),
        repeatable=False,
    )


def backfill_schedule(schedule: str, from_: datetime, to: datetime) -> Operation[Backfilled]:
    """Sends the ticks of a past period, both ends included. A tick that was sent before is not sent again."""
    return Operation(
        method="POST",
        path=f"{_SCHEDULE}/backfill",
        names={"schedule": schedule},
        body={"from": from_, "to": to},
        read=reads(Backfilled),
    )


def _acted(schedule: str, act: str) -> Operation[Schedule]:
    return Operation(method="POST", path=f"{_SCHEDULE}/{act}", names={"schedule": schedule}, read=reads(Schedule))
