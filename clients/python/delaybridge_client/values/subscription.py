"""Defines subscriptions: receivers that the bridge calls with the messages of a topic."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from delaybridge_client.values.topic import Backoff


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCallback:
    """The last failed call of a receiver. `id`: the message's id."""

    at: datetime
    id: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A subscription without its secrets, whose number is `secrets`. `url` None: each message names its receiver.
    `held`: the time until calls go on, if the receiver asked for a pause; otherwise 0."""

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
