"""Defines a schedule as clients read it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from bridge.http.v1.contract.content import body_json
from bridge.http.v1.contract.results import TargetOut
from bridge.http.v1.contract.scalars import ShownInstant
from bridge.http.v1.schedules.definition import SHOWN_TICKS
from bridge.model.durations import format_instant
from bridge.model.labels import unpacked
from bridge.service.schedules.definition import Schedule, Template
from bridge.service.schedules.timing import Tick


class TickOut(BaseModel):
    at: Annotated[ShownInstant, Field(description="as in the id of its message")]
    due_at: Annotated[ShownInstant, Field(description="later than `at` by the jitter")]


class TemplateOut(BaseModel):
    body: Annotated[Any, Field(default=None)]
    body_base64: Annotated[str, Field(default="")]
    content_type: str
    headers: dict[str, Any]
    ttl_ms: int | None
    max_retry: int | None
    labels: dict[str, str]
    to: Annotated[TargetOut | None, Field(description="where each message goes; null: to the topic's ready queue")]


class ScheduleOut(BaseModel):
    """A schedule. Its state is `ended` when no tick follows."""

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
    missed: Literal["skip", "last", "all"]
    missed_max: int
    overlap: Literal["allow", "skip"]
    message: Annotated[TemplateOut | None, Field(description="null in a list")]
    next: Annotated[list[TickOut], Field(description="the next five ticks; none while it is paused")]
    last_at: Annotated[ShownInstant | None, Field(description="the latest tick that was sent")]
    sent: Annotated[int, Field(description="ticks that were sent")]
    missed_ticks: Annotated[int, Field(description="missed ticks that were not sent")]
    overlapped: Annotated[int, Field(description="ticks left out because the former message had not ended")]
    refused: Annotated[int, Field(description="ticks whose message could not be sent")]
    failure: Annotated[str | None, Field(description="why the latest refused tick was refused")]
    created_at: ShownInstant
    changed_at: Annotated[ShownInstant, Field(description="when it was made, changed, paused or resumed last")]
    token_id: Annotated[str, Field(description="who asked for it; `anybody`: no token was asked for; `file`")]


class SchedulesOut(BaseModel):
    items: list[ScheduleOut]
    next_cursor: str | None


class NextOut(BaseModel):
    items: list[TickOut]


class RemovedScheduleOut(BaseModel):
    name: str
    removed: bool


class BackfilledOut(BaseModel):
    """`to`: the end of the time, at most now. `sent`: how many ticks this call sent; the others were sent before."""

    ticks: int
    sent: int
    to: ShownInstant


def schedule_json(schedule: Schedule, now_ms: int) -> dict[str, Any]:
    """Returns the schedule as `ScheduleOut` documents it. `now_ms`: in Unix ms; the shown ticks follow it."""
    timing, rules, progress = schedule.spec.timing, schedule.spec.rules, schedule.progress
    ticks = schedule.following(now_ms, SHOWN_TICKS)
    state = "paused" if progress.is_paused else "active" if ticks else "ended"
    return {
        "name": schedule.name,
        "topic": schedule.spec.topic,
        "state": state,
        "cron": timing.cron,
        "timezone": timing.timezone if timing.cron else None,
        "every_ms": timing.every_ms or None,
        "anchor": format_instant(timing.anchor_ms) if timing.every_ms else None,
        "start": _instant(timing.start_ms),
        "end": _instant(timing.end_ms),
        "jitter_ms": timing.jitter_ms,
        "missed": rules.missed,
        "missed_max": rules.missed_max,
        "overlap": rules.overlap,
        "message": None if schedule.spec.template is None else _template_json(schedule.spec.template),
        "next": ticks_json(ticks),
        "last_at": _instant(progress.last_ms or None),
        "sent": progress.sent,
        "missed_ticks": progress.missed,
        "overlapped": progress.overlapped,
        "refused": progress.refused,
        "failure": progress.failure or None,
        "created_at": format_instant(progress.created_ms),
        "changed_at": format_instant(progress.since_ms),
        "token_id": progress.who,
    }


def ticks_json(ticks: list[Tick]) -> list[dict[str, str]]:
    """Returns the ticks as `TickOut` documents them."""
    return [{"at": format_instant(tick.at_ms), "due_at": format_instant(tick.due_ms)} for tick in ticks]


def _template_json(template: Template) -> dict[str, Any]:
    return {
        **body_json(template.envelope),
        "content_type": template.envelope.content_type,
        "headers": dict(template.envelope.headers),
        "ttl_ms": template.ttl_ms,
        "max_retry": template.max_retry,
        "labels": dict(unpacked(template.labels)),
        "to": None if (target := template.envelope.target) is None else asdict(target),
    }


def _instant(instant_ms: int | None) -> str | None:
    return None if instant_ms is None else format_instant(instant_ms)
