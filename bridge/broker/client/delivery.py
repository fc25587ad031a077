"""A delivery: what came, and on which channel it is to be acknowledged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from aiormq import Channel
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic

from bridge.broker.client.acknowledger import Acknowledger


@dataclass(slots=True)
class Delivery:
    channel: Channel
    delivery_tag: int
    routing_key: str
    properties: Basic.Properties
    body: bytes
    acknowledging: Acknowledger | None = None
    """Its channel's, where many are acknowledged together."""


def delivery_of(message: DeliveredMessage) -> Delivery:
    """One that aiormq has read."""
    return Delivery(
        channel=cast(Channel, message.channel),
        delivery_tag=message.delivery_tag or 0,
        routing_key=message.routing_key or "",
        properties=message.header.properties,
        body=message.body,
    )
