"""Holds a message that was taken out of a queue until it is acknowledged or requeued."""

from __future__ import annotations

from collections.abc import Iterable

from bridge.broker.client.delivery import Delivery, acknowledge, requeue
from bridge.broker.copies.properties import Properties
from bridge.model.fast_dataclass import fast_dataclass


@fast_dataclass(frozen=True, slots=True)
class Taken:
    """An unacknowledged message that was taken out of `queue`."""

    queue: str
    message: Delivery

    @property
    def properties(self) -> Properties:
        return self.message.properties

    @property
    def is_open(self) -> bool:
        """Whether the message can still be acknowledged. RabbitMQ redelivers it once its channel has closed."""
        return self.message.acknowledger.is_open

    @property
    def live_for_ms(self) -> int:
        """The time to live, in ms, with which the message came into its queue; 0: it has none."""
        expiration = self.properties.expiration
        return int(expiration) if expiration and expiration.isdecimal() else 0

    def ack(self) -> None:
        """Acknowledges the message. On a lost channel this does nothing: RabbitMQ redelivers the message, and a pull
        drops it as a ghost."""
        acknowledge([self.message])

    def requeue(self) -> None:
        """Requeues the message at its old position in the queue. The queue counts this towards its delivery limit."""
        requeue(self.message)


def ack_all(taken: Iterable[Taken]) -> None:
    """Acknowledges messages. One frame acknowledges all consecutive deliveries of a channel."""
    acknowledge(one.message for one in taken)
