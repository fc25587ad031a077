"""Defines subscriptions: receivers that the bridge calls with the messages of a topic."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from delaybridge_client.values.topic import Backoff


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCallback:
    """The last failed call. `id`: the message's."""

    at: datetime
    id: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A subscription without its secrets. `held`: until calls go on, since the receiver asked for a pause."""

    topic: str
    url: str | None
    secrets: int
    concurrency: int
    timeout: timedelta
    backoff: Backoff
    created_at: datetime
    state: Literal["active", "held", "ended"]
    held: timedelta
    ended_at: datetime | None
    delivered: int
    failed: int
    last_delivered_at: datetime | None
    last_failure: FailedCallback | None
