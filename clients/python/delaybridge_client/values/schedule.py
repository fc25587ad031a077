"""Defines schedules, which send a message again and again."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, Self

from delaybridge_client import decode
from delaybridge_client.values.message import NewMessage, Target

Missed = Literal["skip", "last", "all"]
Overlap = Literal["allow", "skip"]


@dataclass(frozen=True, slots=True)
class ScheduledMessage:
    """The message of each tick. `NewMessage` describes the fields."""

    body: Any
    content_type: str | None = field(default=None, kw_only=True)
    headers: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    ttl: timedelta | None = field(default=None, kw_only=True)
    max_retry: int | None = field(default=None, kw_only=True)
    labels: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    to: Target | None = field(default=None, kw_only=True)

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        encoded = members.get("body_base64")
        body = members.get("body") if encoded is None else base64.b64decode(encoded)
        return cls(**decode.read_fields(cls, {**members, "body": body}))

    def members(self) -> dict[str, Any]:
        """Returns the members of a request that have this message."""
        message = NewMessage(
            self.body,
            content_type=self.content_type,
            headers=self.headers,
            ttl=self.ttl,
            max_retry=self.max_retry,
            labels=self.labels,
            to=self.to,
        )
        members = message.members()
        del members["id"]  # each tick has its own id
        return members


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A moment of a schedule. `at`: the moment, which is part of the id of the tick's message. `due_at`: when the
    message is due; it is later than `at` by the jitter."""

    at: datetime
    due_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule with its next ticks and its counts. `message` is None in a list. State `ended`: no tick follows."""

    name: str
    topic: str
    state: Literal["active", "paused", "ended"]
    cron: str | None
    timezone: str | None
    every: timedelta | None
    anchor: datetime | None
    start: datetime | None
    end: datetime | None
    jitter: timedelta
    missed: Missed
    missed_max: int
    overlap: Overlap
    message: ScheduledMessage | None
    next: tuple[Tick, ...]
    last_at: datetime | None
    sent: int
    missed_ticks: int
    overlapped: int
    refused: int
    failure: str | None
    created_at: datetime
    changed_at: datetime
    token_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfilled:
    """The result of a backfill. `ticks`: how many ticks the period has. `sent`: how many of these ticks this call sent;
    the others were sent before. `to`: the end of the period, at most now."""

    ticks: int
    sent: int
    to: datetime
