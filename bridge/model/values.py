"""What goes into the service and what comes out of it. Instants are Unix milliseconds by the store's clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import Envelope, Message

MAX_DELAY_MS = 999 * 86_400_000
"""The longest delay there is, 999 days: what the wheel's three digits of days hold."""


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A message to send. At most one of `delay_ms` and `deliver_at_ms`; neither means now, a past instant too.

    `id` None: one is made. `ttl_ms` counts from due; None in it and in `max_retry` takes the topic's default.
    """

    topic: str
    envelope: Envelope
    id: str | None = None
    delay_ms: int | None = None
    deliver_at_ms: int | None = None
    ttl_ms: int | None = None
    max_retry: int | None = None


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class Sent:
    message: Message
    replayed: bool  # the id was live already: this is the message that has it


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class Leased:
    message: Message
    receipt: str


class AckVerdict(StrEnum):
    ACKED = "acked"
    STALE = "stale"  # its lease has ended, or the message has ended otherwise
    UNKNOWN = "unknown"


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class AckResult:
    id: str | None  # None: the receipt could not be read
    verdict: AckVerdict
    message: Message | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    items: list[Message]
    next_cursor: str | None


class Release(StrEnum):
    CHECKED = "checked"
    DIRECT = "direct"


@dataclass(frozen=True, kw_only=True, slots=True)
class Backoff:
    """How long a failed delivery waits before the next: `steps_ms` by turn (the last one for all later ones), or
    growing from `first_ms` by `factor` up to `max_ms`."""

    steps_ms: tuple[int, ...] = ()
    first_ms: int = 0
    factor: float = 1.0
    max_ms: int = 0

    def delay_ms(self, failures: int) -> int:
        """The wait after so many failed deliveries, which are at least 1."""
        if self.steps_ms:
            return self.steps_ms[min(failures, len(self.steps_ms)) - 1]
        # The exponent is bounded so that the power can't overflow; every limit is reached long before.
        return min(self.max_ms, int(self.first_ms * self.factor ** min(failures - 1, 64)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """What a topic decides for its messages; None takes the bridge's setting."""

    release: Release = Release.CHECKED
    max_retry: int | None = None
    ttl_ms: int | None = None
    lease_ms: int | None = None
    backoff: Backoff | None = None  # None: at once
    paused: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicInfo:
    topic: str
    counts: Mapping[str, int]  # by state label
    overdue: int  # waiting, and past due
    waiting_by_due: Mapping[str, int]  # "1m", "10m", "30m", "1h", "6h", "1d", "7d", "30d", "beyond"
    lateness_ms: Mapping[str, float | None]  # "p50", "p90", "p99", "max" of this process's latest releases
    policy: Policy
    ready_queue: str
    dead_queue: str
