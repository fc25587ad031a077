"""Describes the HTTP calls on a bridge's health and metrics as `Operation` values, without I/O."""

from __future__ import annotations

from delaybridge_client.operation import Answer, Operation, reads
from delaybridge_client.values.operators import Live, Ready


def live() -> Operation[Live]:
    """Returns the status `ok` as long as the bridge's process runs. The bridge asks neither RabbitMQ nor Redis."""
    return Operation(method="GET", path="/health/live", read=reads(Live))


def ready() -> Operation[Ready]:
    """Returns the state of RabbitMQ, Redis and each loop. If a part does not work, raises `Unavailable` at once."""
    return Operation(method="GET", path="/health/ready", read=reads(Ready), repeatable=False)


def metrics() -> Operation[str]:
    """Returns the metrics in Prometheus' text format."""
    return Operation(method="GET", path="/metrics", read=_text)


def _text(answer: Answer) -> str:
    return answer.content.decode()
