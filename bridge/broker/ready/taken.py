"""Holds a message that was taken out of a queue until it is acknowledged or requeued."""

from __future__ import annotations

from collections.abc import Iterable

from bridge.broker.client.delivery import Delivery, acknowledge, requeue
from bridge.broker.copies.properties import Properties
from bridge.model.fast_dataclass import fast_dataclass


@fast_dataclass(frozen=True, slots=True)
class Taken:
    """An unacknowledged delivery out of `queue`."""

    queue: str
    message: Delivery

    @property
    def properties(self) -> Properties:
        return self.message.properties

    @property
    def live_for_ms(self) -> int:
        """Its time to live, 0 for none."""
        expiration = self.properties.expiration
        return int(expiration) if expiration and expiration.isdecimal() else 0

    async def ack(self) -> None:
        """Acknowledges it. On a lost channel there is nothing to do: RabbitMQ redelivers a ghost."""
        await acknowledge([self.message])

    async def requeue(self) -> None:
        """Requeues it at its place, which counts as one of the queue's deliveries."""
        await requeue(self.message)


async def ack_all(taken: Iterable[Taken]) -> None:
    """Acknowledges them, with one frame for all of a channel that came one after the other."""
    await acknowledge(one.message for one in taken)
