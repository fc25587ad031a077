"""Defines topics and their policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, Self

from delaybridge_client import decode

Release = Literal["checked", "direct"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The delay before each retry: `first`, then `factor` times the delay before, up to `max`; or `steps`, whose last
    step repeats."""

    first: timedelta | None = None
    factor: float | None = None
    max: timedelta | None = None
    steps: tuple[timedelta, ...] | None = None

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        return cls(**decode.read_fields(cls, members))

    def as_json(self) -> Any:
        """Returns the back-off as the JSON value of a request."""
        if self.steps is not None:
            return list(self.steps)
        growing = {"first": self.first, "factor": self.factor, "max": self.max}
        return {name: value for name, value in growing.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules by which a topic treats its messages. If a field is None, the bridge's setting applies."""

    release: Release
    max_retry: int | None
    ttl: timedelta | None
    lease: timedelta | None
    backoff: Backoff | None
    paused: bool
    keep_body_max: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effective:
    """The values that apply to a topic. `jitter`: the longest extra wait of a retry, as a share of the back-off.
    `defaults`: the fields that the policy does not set, so the bridge's settings apply."""

    max_retry: int
    ttl: timedelta | None
    lease: timedelta
    backoff: Backoff
    jitter: float
    defaults: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queues:
    """The names of a topic's queues in RabbitMQ."""

    ready: str
    dead: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic with the counts of its messages by state. `lateness`: how late recent releases were, by percentile."""

    topic: str
    counts: Mapping[str, int]
    overdue: int
    waiting_by_due: Mapping[str, int]
    lateness: Mapping[str, timedelta | None]
    policy: Policy
    effective: Effective
    queues: Queues
