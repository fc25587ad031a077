"""Measures publishes to RabbitMQ, and counts their failures and the connections that were lost."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from bridge.metrics.registry import counter, gauge, histogram


class Failure(StrEnum):
    """The reasons why RabbitMQ did not confirm a message."""

    BLOCKED = "blocked"  # RabbitMQ blocks publishers
    BUSY = "busy"  # all channels wait for RabbitMQ
    BREAKER = "breaker"  # the breaker refused the call
    UNREACHABLE = "unreachable"  # no connection, so nothing was written
    UNCONFIRMED = "unconfirmed"  # no answer in time, or the connection was lost
    REFUSED = "refused"  # RabbitMQ answered with a nack, or closed the channel over a message
    UNROUTABLE = "unroutable"  # there is no queue; the bridge declares it and publishes again
    UNWRITABLE = "unwritable"  # AMQP can't hold the message


CONFIRM_SECONDS: Final = histogram(
    "publish_confirm_seconds",
    "Time from the publish of a burst of messages to its last confirm",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
)
RECONNECTS: Final = counter(
    "broker_reconnects", "Connections to RabbitMQ opened in place of one that was lost", "purpose"
)
BLOCKED: Final = gauge("broker_blocked", "1 while RabbitMQ blocks publishers (memory or disk alarm)", "part")
_PUBLISHES_FAILED: Final = counter("publish_failures", "Messages that RabbitMQ did not confirm", "cause")
_failed: Final = {cause: _PUBLISHES_FAILED.labels(cause.value) for cause in Failure}


def failed(cause: Failure, messages: int) -> None:
    """Counts messages that RabbitMQ did not confirm. `messages`: how many."""
    _failed[cause].inc(messages)
