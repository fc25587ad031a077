"""Defines the values that operators look at: health, overview, slots, actions and sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """The answer of a bridge whose process runs. `status` is always `ok`."""

    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A fault that a check of the servers found. `remedy`: what an operator can do."""

    severity: Literal["error", "warning"]
    says: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The state of RabbitMQ, Redis and each loop. `status`: `ok` or `degraded`."""

    status: str
    parts: Mapping[str, str]
    policies: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Waiting messages by due moment: counts of the next minute, hour and day, twelve each."""

    overdue: int
    minute: tuple[int, ...]
    hour: tuple[int, ...]
    day: tuple[int, ...]
    later: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """How late releases were. `late`: how many were more than 100 ms late."""

    released: int
    late: int
    p50: timedelta | None
    p99: timedelta | None
    over: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstTopic:
    """A topic with overdue, old or dead messages."""

    topic: str
    overdue: int
    oldest_overdue: timedelta
    ready: int
    oldest_ready: timedelta
    dead: int
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The figures of all topics together. A figure is None if no Redis answered, or if it is not known yet."""

    at: datetime
    ok: bool
    parts: Mapping[str, str]
    findings: tuple[Finding, ...]
    missing: tuple[str, ...]
    topics: int | None
    paused: int | None
    counts: Mapping[str, int] | None
    due: Due | None
    oldest_overdue: timedelta | None
    oldest_ready: timedelta | None
    rates: Mapping[str, float] | None
    lateness: Lateness | None
    queues: Mapping[str, int] | None
    worst: tuple[WorstTopic, ...]
    queues_pages: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A slot: a queue of the wheel. `wait`: how long a copy waits in it. `in_rabbitmq`: its AMQP messages; a bundle is
    one. `messages`: the waiting messages that have at least `wait` left, and less than the next longer slot's wait."""

    pool: str
    slot: str
    wait: timedelta
    in_rabbitmq: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """The slots of the wheel, with the numbers of waiting messages. `overdue`: messages that are past due. `soon`:
    messages that are due before the shortest wait of a slot has passed. `in_checkpoint`: messages in the checkpoint's
    queues."""

    slots: tuple[Slot, ...]
    overdue: int
    soon: int
    in_checkpoint: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An operator's action. `who`: the id of the token."""

    at: datetime
    what: str
    who: str
    name: str | None
    topic: str | None
    target: str | None
    count: int | None
    done: bool
    request_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The rights of the request's token. `ends_at`: when an opened browser's session ends; None in other answers."""

    token_required: bool
    token_id: str | None
    name: str | None
    scopes: tuple[str, ...]
    every_topic: bool
    namespaces: tuple[str, ...]
    bare_topics: bool
    ends_at: datetime | None
