"""Holds a delivery with the acknowledger of its channel, and acknowledges or requeues deliveries."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from bridge.broker.client.acknowledger import Acknowledger
from bridge.broker.copies.properties import Properties
from bridge.model.errors import BrokerUnavailable


@dataclass(slots=True)
class Delivery:
    """One delivered message. `acknowledger`: acknowledges the deliveries of its channel, many with one frame. A
    `Consumer`'s deliveries have tags of that consumer, and only the consumer acknowledges them."""

    acknowledger: Acknowledger
    delivery_tag: int
    routing_key: str
    properties: Properties
    body: bytes
    exchange: str = ""
    redelivered: bool = False


def acknowledge(deliveries: Iterable[Delivery]) -> None:
    """Acknowledges deliveries. One frame acknowledges all consecutive deliveries of a channel.

    On a lost channel there is nothing to do: RabbitMQ redelivers the message, and the checkpoint or a pull finds a
    ghost.
    """
    together: dict[Acknowledger, list[int]] = {}
    for delivery in deliveries:
        together.setdefault(delivery.acknowledger, []).append(delivery.delivery_tag)
    for acknowledger, tags in together.items():
        with suppress(BrokerUnavailable):
            acknowledger.ack(tags)


def requeue(delivery: Delivery) -> None:
    """Requeues a delivery at its former place. The queue counts the requeue towards its delivery limit. On a lost
    channel there is nothing to do, as RabbitMQ redelivers the message."""
    with suppress(BrokerUnavailable):
        delivery.acknowledger.requeue(delivery.delivery_tag)
