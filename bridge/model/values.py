"""Defines the values that the service takes and returns. Instants are Unix milliseconds by Redis' clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self
from zlib import crc32

from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import Envelope, Message

MAX_DELAY_MS = 999 * 86_400_000
"""The longest delay: 999 days, the most that the wheel's three digits of days hold."""

LONGEST_DEFAULT_BACKOFF_MS: Final = 30 * 86_400_000
"""The longest back-off that a setting may give: 30 days."""

JITTER: Final = 0.25
"""The largest jitter that is added to a wait of the default back-off, as a share of the wait."""

LARGEST_BODY = 16 * 1024 * 1024
"""The highest value, in bytes, for BRIDGE_MAX_BODY, a token's limit, and a topic's limit on kept bodies."""


class IfExists(StrEnum):
    """What a send does if a live message already has its id."""

    SAME = "same"  # answers with that message, and refuses a send of another body: it is no repeated send
    KEEP = "keep"  # answers with that message, whatever it is
    REPLACE = "replace"  # puts the sent message in its place
    EXTEND = "extend"  # gives it the sent content, and a later due moment
    ERROR = "error"  # refuses the send


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A message to send. Has at most one of `delay_ms` and `deliver_at_ms`; with neither, or with a past instant, the
    message is due now.

    `id` None: the bridge makes one. `ttl_ms`: the time to live in ms, from the due moment on. None in `ttl_ms` or
    `max_retry`: the topic's default. `labels`: as one text, a line `key=value` for each. `of_wire`: a client of another
    queue's protocol sent the message, and expects that the bridge can show its body. `max_wait_ms`: for `EXTEND`, the
    longest time from the first send to the due moment.
    """

    topic: str
    envelope: Envelope
    id: str | None = None
    delay_ms: int | None = None
    deliver_at_ms: int | None = None
    ttl_ms: int | None = None
    max_retry: int | None = None
    labels: str = ""
    of_wire: bool = False
    if_exists: IfExists = IfExists.KEEP
    max_wait_ms: int | None = None


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class Sent:
    message: Message
    replayed: bool  # a message had the id already; `message` is that one
    unanswered: bool = False  # `replayed`, and no earlier send of `message` was answered with success
    changed: bool = False  # a live message had the id; the draft replaced or extended it


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class Leased:
    """A message with the receipt of its lease. `traced_as`: the trace context of this delivery, empty if it has none
    (`tracing/context.py`)."""

    message: Message
    receipt: str
    traced_as: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """The changes to a waiting message. A field that is None stays as it is. At most one of `delay_ms` and
    `deliver_at_ms` is set.

    `envelope`: the whole new content. `ttl_ms`: the new time to live in ms, from the due moment on. `labels`: as one
    text, a line `key=value` for each; empty: no labels.
    """

    envelope: Envelope | None = None
    delay_ms: int | None = None
    deliver_at_ms: int | None = None
    ttl_ms: int | None = None
    max_retry: int | None = None
    labels: str | None = None


class AckVerdict(StrEnum):
    ACKED = "acked"
    STALE = "stale"  # the lease of the receipt has ended, or the message has ended
    NOT_LEASED = "not_leased"  # nobody has received the message: it waits for its first delivery
    UNKNOWN = "unknown"


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class AckResult:
    id: str | None  # None: the receipt is malformed
    verdict: AckVerdict
    message: Message | None = None


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class Nack:
    """A nack of one lease. `receipt` None: the present lease. `delay_ms`: the time until the next delivery; None: the
    topic's back-off. `reason`: why, in the client's words."""

    receipt: str | None
    delay_ms: int | None = None
    reason: str | None = None


class Settled(StrEnum):
    """What became of one lease that a pull settles."""

    ACKED = "acked"
    NACKED = "nacked"
    STALE = "stale"  # the lease or the message has ended
    UNKNOWN = "unknown"  # no such message, or not a receipt


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class SettledLease:
    id: str | None  # None: the receipt is malformed
    result: Settled


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    items: list[Message]
    next_cursor: str | None


class Release(StrEnum):
    CHECKED = "checked"
    DIRECT = "direct"


@dataclass(frozen=True, kw_only=True, slots=True)
class Backoff:
    """The delays between failed deliveries, in ms. Either `steps_ms` in order, the last of them repeated; or from
    `first_ms`, multiplied by `factor` each time, up to `max_ms`."""

    steps_ms: tuple[int, ...] = ()
    first_ms: int = 0
    factor: float = 1.0
    max_ms: int = 0

    def delay_ms(self, failures: int) -> int:
        """Returns the delay before the next delivery. `failures`: failed deliveries so far, at least 1."""
        if self.steps_ms:
            return self.steps_ms[min(failures, len(self.steps_ms)) - 1]
        # The bound keeps the power from overflowing. Every `max_ms` is reached long before.
        return min(self.max_ms, int(self.first_ms * self.factor ** min(failures - 1, 64)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """A topic's stored policy for its messages. For a field that is None, the bridge's setting applies."""

    release: Release = Release.CHECKED
    max_retry: int | None = None
    ttl_ms: int | None = None
    lease_ms: int | None = None
    backoff: Backoff | None = None
    paused: bool = False
    keep_body_max: int | None = None  # bytes; Redis does not keep larger bodies


@dataclass(frozen=True, kw_only=True, slots=True)
class Defaults:
    """The bridge's settings for fields that a topic's policy does not set. `ttl_ms` None: no time to live."""

    max_retry: int
    ttl_ms: int | None
    lease_ms: int
    backoff: Backoff


@dataclass(frozen=True, kw_only=True, slots=True)
class Effective(Policy):
    """The values that apply to a topic: from its policy, or else the bridge's defaults.

    An `Effective` is never stored. `own`: the topic's policy. `keep_body_max`: the value of `own`, which may be None,
    because the default depends on the sender. No other code decides which value applies.
    """

    max_retry: int
    lease_ms: int
    backoff: Backoff
    own: Policy

    @classmethod
    def of(cls, own: Policy, defaults: Defaults) -> Self:
        return cls(
            release=own.release,
            max_retry=defaults.max_retry if own.max_retry is None else own.max_retry,
            ttl_ms=defaults.ttl_ms if own.ttl_ms is None else own.ttl_ms,
            lease_ms=own.lease_ms or defaults.lease_ms,
            backoff=defaults.backoff if own.backoff is None else own.backoff,
            paused=own.paused,
            keep_body_max=own.keep_body_max,
            own=own,
        )

    @property
    def defaulted(self) -> list[str]:
        """The names of the fields that the topic does not set."""
        return [name for name in ("max_retry", "ttl_ms", "lease_ms", "backoff") if getattr(self.own, name) is None]

    @property
    def jitter(self) -> float:
        """The largest jitter that is added to a back-off, as a share of the back-off. 0 if the topic's own policy sets
        the back-off."""
        return JITTER if self.own.backoff is None else 0.0

    def ttl_of(self, draft: Draft) -> int | None:
        """Returns how many ms a draft's message lives after its due moment; None: for ever.

        If a client of a wire sets no time to live, the client means for ever. So the topic's value counts for the
        message, but not the bridge's default.
        """
        if draft.ttl_ms is not None:
            return draft.ttl_ms
        return self.own.ttl_ms if draft.of_wire else self.ttl_ms

    def retries_of(self, draft: Draft) -> int:
        return self.max_retry if draft.max_retry is None else draft.max_retry

    def retry_after_ms(self, message_id: str, failures: int) -> int:
        """Returns how many ms a message waits for its next delivery. `failures`: failed deliveries so far, at least 1.

        The jitter spreads messages that fail together. The message's id and `failures` determine its jitter. So two
        processes that decide about one failure compute the same wait.
        """
        after_ms = self.backoff.delay_ms(failures)
        share = crc32(f"{failures} {message_id}".encode()) / 2**32
        return after_ms + int(after_ms * self.jitter * share)


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicInfo:
    topic: str
    counts: Mapping[str, int]  # by state label
    overdue: int  # messages that are waiting and past due
    waiting_by_due: Mapping[str, int]  # "1m", "10m", "30m", "1h", "6h", "1d", "7d", "30d", "beyond"
    lateness_ms: Mapping[str, float | None]  # "p50", "p90", "p99" and "max" of the latest releases of this process
    policy: Effective
    ready_queue: str
    dead_queue: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicPage:
    items: list[TopicInfo]
    next_cursor: str | None
