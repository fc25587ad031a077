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
    """One delivered message. `acknowledger`: acknowledges or requeues the deliveries of the channel, many with one
    frame. Exception: a `Consumer` renumbers the tags of its deliveries. Acknowledge those only with `Consumer.ack`."""

    acknowledger: Acknowledger
    delivery_tag: int
    routing_key: str
    properties: Properties
    body: bytes
    exchange: str = ""
    redelivered: bool = False


def acknowledge(deliveries: Iterable[Delivery]) -> None:
    """Acknowledges deliveries. One frame acknowledges all consecutive deliveries of a channel.

    Does nothing on a lost channel: RabbitMQ redelivers the messages, and the checkpoint or a pull drops them as ghosts.
    """
    together: dict[Acknowledger, list[int]] = {}
    for delivery in deliveries:
        together.setdefault(delivery.acknowledger, []).append(delivery.delivery_tag)
    for acknowledger, tags in together.items():
        with suppress(BrokerUnavailable):
            acknowledger.ack(tags)


def requeue(delivery: Delivery) -> None:
    """Requeues a delivery at its old position in the queue. The queue counts the requeue towards its delivery limit.
    Does nothing on a lost channel, because RabbitMQ redelivers the message."""
    with suppress(BrokerUnavailable):
        delivery.acknowledger.requeue(delivery.delivery_tag)
