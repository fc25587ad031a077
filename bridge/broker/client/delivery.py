"""Holds a delivery with the channel that acknowledges it, and acknowledges or requeues deliveries."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import aiormq
from aiormq.exceptions import AMQPError, ChannelInvalidStateError

from bridge.broker.client import frames
from bridge.broker.client.acknowledger import Acknowledger
from bridge.broker.client.write import write
from bridge.broker.copies.properties import Properties
from bridge.model.errors import BrokerUnavailable


@dataclass(slots=True)
class Delivery:
    """One delivered message. `acknowledger`: the acknowledger of the channel, which acknowledges many deliveries with
    one frame. None: each delivery needs a frame for its ack."""

    channel: aiormq.Channel
    delivery_tag: int
    routing_key: str
    properties: Properties
    body: bytes
    acknowledger: Acknowledger | None = None
    exchange: str = ""
    redelivered: bool = False


async def acknowledge(deliveries: Iterable[Delivery]) -> None:
    """Acknowledges deliveries. One frame acknowledges all consecutive deliveries of a channel that has an acknowledger.

    On a lost channel there is nothing to do: RabbitMQ redelivers the message, and the checkpoint or a pull finds a
    ghost.
    """
    one_by_one: dict[aiormq.Channel, list[int]] = {}
    together: dict[Acknowledger, list[int]] = {}
    for delivery in deliveries:
        if delivery.acknowledger is not None:
            together.setdefault(delivery.acknowledger, []).append(delivery.delivery_tag)
        else:
            one_by_one.setdefault(delivery.channel, []).append(delivery.delivery_tag)
    for channel, tags in one_by_one.items():
        with suppress(ChannelInvalidStateError):
            await write(channel, frames.acks(channel.number, 0, tags))
    for acknowledger, tags in together.items():
        with suppress(BrokerUnavailable):
            await acknowledger.ack(tags)


async def requeue(delivery: Delivery) -> None:
    """Requeues a delivery at its former place. The queue counts the requeue towards its delivery limit."""
    with suppress(AMQPError, ChannelInvalidStateError, OSError):
        if delivery.acknowledger is not None:
            await delivery.acknowledger.requeue(delivery.delivery_tag)
        else:
            await delivery.channel.basic_reject(delivery.delivery_tag, requeue=True, wait=False)
