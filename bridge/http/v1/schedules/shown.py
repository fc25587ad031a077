"""Defines the form in which clients read a schedule."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, UnsetType

from bridge.http.structs import Answer
from bridge.http.v1.contract.content import shown_body
from bridge.http.v1.contract.results import TargetOut, instant_out, target_out
from bridge.http.v1.contract.scalars import ShownInstant
from bridge.http.v1.schedules.definition import SHOWN_TICKS
from bridge.model.durations import format_instant
from bridge.model.labels import unpacked
from bridge.service.schedules.definition import Schedule, Template
from bridge.service.schedules.ticks import Missed, Overlap
from bridge.service.schedules.timing import Tick


class TickOut(Answer):
    at: Annotated[ShownInstant, Meta(description="as in the id of its message")]
    due_at: Annotated[ShownInstant, Meta(description="later than `at` by the jitter")]


class TemplateOut(Answer, kw_only=True):
    body: Raw | UnsetType = UNSET
    body_base64: str | UnsetType = UNSET
    content_type: str
    headers: dict[str, Any]
    ttl_ms: int | None
    max_retry: int | None
    labels: dict[str, str]
    to: Annotated[TargetOut | None, Meta(description="where each message goes; null: to the topic's ready queue")]


class ScheduleOut(Answer):
    """A schedule. Its state is `ended` when it has no further tick."""

    name: str
    topic: str
    state: Literal["active", "paused", "ended"]
    cron: str | None
    timezone: str | None
    every_ms: int | None
    anchor: ShownInstant | None
    start: ShownInstant | None
    end: ShownInstant | None
    jitter_ms: int
    missed: Missed
    missed_max: int
    overlap: Overlap
    message: Annotated[TemplateOut | None, Meta(description="null in a list")]
    next: Annotated[list[TickOut], Meta(description="the next five ticks; none while it is paused")]
    last_at: Annotated[ShownInstant | None, Meta(description="the latest tick that was sent")]
    sent: Annotated[int, Meta(description="ticks that were sent")]
    missed_ticks: Annotated[int, Meta(description="missed ticks that were not sent")]
    overlapped: Annotated[int, Meta(description="ticks left out because the previous tick's message had not ended")]
    refused: Annotated[int, Meta(description="ticks whose message could not be sent")]
    failure: Annotated[str | None, Meta(description="why the latest refused tick was refused")]
    created_at: ShownInstant
    changed_at: Annotated[ShownInstant, Meta(description="when it was made, changed, paused or resumed last")]
    token_id: Annotated[str, Meta(description="who asked for it; `anybody`: no token was asked for; `file`")]


class SchedulesOut(Answer):
    items: list[ScheduleOut]
    next_cursor: str | None


class NextOut(Answer):
    items: list[TickOut]


class RemovedScheduleOut(Answer):
    name: str
    removed: bool


class BackfilledOut(Answer):
    """The result of a backfill. `ticks`: how many ticks the period has. `sent`: how many of these ticks this call sent;
    the others were sent before. `to`: the end of the period, at most now."""

    ticks: int
    sent: int
    to: ShownInstant


def schedule_out(schedule: Schedule, now_ms: int) -> ScheduleOut:
    """Returns the schedule for an answer, with the first five ticks after `now_ms` (Unix ms)."""
    timing, rules, progress = schedule.spec.timing, schedule.spec.rules, schedule.progress
    ticks = schedule.following(now_ms, SHOWN_TICKS)
    return ScheduleOut(
        name=schedule.name,
        topic=schedule.spec.topic,
        state="paused" if progress.is_paused else "active" if ticks else "ended",
        cron=timing.cron,
        timezone=timing.timezone if timing.cron else None,
        every_ms=timing.every_ms or None,
        anchor=format_instant(timing.anchor_ms) if timing.every_ms else None,
        start=_instant(timing.start_ms),
        end=_instant(timing.end_ms),
        jitter_ms=timing.jitter_ms,
        missed=rules.missed,
        missed_max=rules.missed_max,
        overlap=rules.overlap,
        message=None if schedule.spec.template is None else _template_out(schedule.spec.template),
        next=ticks_out(ticks),
        last_at=instant_out(progress.last_ms),
        sent=progress.sent,
        missed_ticks=progress.missed,
        overlapped=progress.overlapped,
        refused=progress.refused,
        failure=progress.failure or None,
        created_at=format_instant(progress.created_ms),
        changed_at=format_instant(progress.since_ms),
        token_id=progress.who,
    )


def ticks_out(ticks: list[Tick]) -> list[TickOut]:
    return [TickOut(at=format_instant(tick.at_ms), due_at=format_instant(tick.due_ms)) for tick in ticks]


def _template_out(template: Template) -> TemplateOut:
    body, body_base64 = shown_body(template.envelope)
    return TemplateOut(
        body=body,
        body_base64=body_base64,
        content_type=template.envelope.content_type,
        headers=dict(template.envelope.headers),
        ttl_ms=template.ttl_ms,
        max_retry=template.max_retry,
        labels=dict(unpacked(template.labels)),
        to=None if (target := template.envelope.target) is None else target_out(target),
    )


def _instant(instant_ms: int | None) -> str | None:
    return None if instant_ms is None else format_instant(instant_ms)
