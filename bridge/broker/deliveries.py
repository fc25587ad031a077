"""A delivery: what came, and on which channel it is to be acknowledged."""

from __future__ import annotations

from dataclasses import dataclass

from aiormq.abc import AbstractChannel, DeliveredMessage
from pamqp.commands import Basic


@dataclass(slots=True)
class Delivery:
    channel: AbstractChannel
    delivery_tag: int
    routing_key: str
    properties: Basic.Properties
    body: bytes


def delivery_of(message: DeliveredMessage) -> Delivery:
    """One that aiormq has read."""
    return Delivery(
        channel=message.channel,
        delivery_tag=message.delivery_tag or 0,
        routing_key=message.routing_key or "",
        properties=message.header.properties,
        body=message.body,
    )
