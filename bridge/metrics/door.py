"""Counts the connections, bytes and publishes of `delaybridge door`."""

from __future__ import annotations

from typing import Final

from bridge.metrics.registry import counter, gauge

CONNECTIONS: Final = gauge("door_connections", "Clients that are connected through the door")
REFUSED: Final = counter(
    "door_refused",
    "Connections that the door closed: full, broker (it could not be reached), frame (no AMQP 0-9-1, or too large)",
    "reason",
)
SENT: Final = counter("door_sent_bytes", "Bytes passed on to the broker")
RECEIVED: Final = counter("door_received_bytes", "Bytes passed on to clients")
DELAYED: Final = counter("door_delayed", "Publishes with `x-delay` that went to the ingress of their exchange")
MADE_PASSIVE: Final = counter("door_made_passive", "Declares of the plugin's exchange type that became passive")

for _reason in ("full", "broker", "frame"):
    REFUSED.labels(_reason)
