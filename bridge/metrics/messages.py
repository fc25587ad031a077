"""Counts what happens to messages, by topic, and measures how late they are.

A histogram covers all topics together. One for each topic would cost more series than all counters of the topic.
"""

from __future__ import annotations

from typing import Final

from bridge.metrics import lateness
from bridge.metrics.registry import counter, histogram
from bridge.metrics.topics import ByReason, ByTopic

LATE_MS: Final = 100
"""In milliseconds. A release later than this counts as late."""

ACCEPTED: Final = ByTopic("accepted", "Messages accepted by sends")
RELEASED: Final = ByTopic("released", "Copies released into a ready queue by the checkpoint")
RELEASED_LATE: Final = ByTopic("released_late", f"Copies released more than {LATE_MS} ms after their due moment")
DELIVERED: Final = ByTopic("delivered", "Deliveries over HTTP")
ACKED: Final = ByTopic("acked", "Messages recorded as acknowledged")
ACKS_REFUSED: Final = counter(
    "acks_refused", "Acks published by AMQP consumers that ended no message, by reason", "reason"
)
DELETED: Final = ByTopic("deleted", "Messages deleted")
EXPIRED: Final = ByTopic("expired", "Messages that expired")
RETRIED: Final = ByTopic("retried", "Copies sent again after a failed delivery over AMQP")
GHOSTS: Final = ByTopic("ghosts_dropped", "Ghosts dropped: copies that a newer copy has replaced")
RESENT: Final = ByTopic("resent", "Messages sent again because their copy was lost")
LEASES_EXPIRED: Final = ByTopic("leases_expired", "Leases that ended before anybody settled them")
DEAD: Final = ByReason(
    "dead",
    "Messages that became dead letters, by the failure of their last delivery",
    ("nacked", "lease_ended", "rejected", "delivery_limit", "unroutable"),
)
_RELEASE_LAG: Final = histogram(
    "release_lag_seconds",
    "Time from the due moment to the confirmed release into the ready queue",
    buckets=(0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600),
)
_DUE_TO_ACK: Final = histogram(
    "due_to_ack_seconds",
    "Time from the due moment to the recorded ack",
    buckets=(0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1_800, 10_800),
)


def released(topic: str, late_ms: float) -> None:
    """Counts one release of the topic. `late_ms`: how long after its due moment; negative counts as 0."""
    late_ms = max(0.0, late_ms)
    RELEASED.add(topic)
    RELEASED_LATE.add(topic, int(late_ms > LATE_MS))  # without a series, a graph would show no share instead of 0
    _RELEASE_LAG.observe(late_ms / 1_000)
    lateness.note(topic, late_ms)


def acked(topic: str, *took_ms: int) -> None:
    """Counts acks of messages of one topic. `took_ms`: for each message, the milliseconds since its due moment."""
    if took_ms:
        ACKED.add(topic, len(took_ms))
        for one_ms in took_ms:
            _DUE_TO_ACK.observe(max(0, one_ms) / 1_000)
