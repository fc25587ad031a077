"""What was taken out of a queue, and is acknowledged or put back."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from aiormq import Channel
from aiormq.abc import ChannelFrame
from aiormq.exceptions import AMQPError, ChannelInvalidStateError
from pamqp import commands as spec

from bridge.broker.client import frames
from bridge.broker.client.acknowledger import Acknowledger
from bridge.broker.client.delivery import Delivery
from bridge.model.errors import BrokerUnavailable
from bridge.model.fast_dataclass import fast_dataclass


@fast_dataclass(frozen=True, slots=True)
class Taken:
    """A delivery that is not acknowledged yet."""

    queue: str
    message: Delivery

    @property
    def properties(self) -> spec.Basic.Properties:
        return self.message.properties

    @property
    def live_for_ms(self) -> int:
        """Its time to live, 0 for none."""
        expiration = self.properties.expiration
        return int(expiration) if expiration and expiration.isdecimal() else 0

    async def ack(self) -> None:
        """Acknowledges it. On a lost channel nothing is to be done: the copy comes again, as a ghost."""
        await ack_all([self])

    async def requeue(self) -> None:
        """Puts it back where it was, which counts as one of the queue's deliveries."""
        delivery = self.message
        with suppress(AMQPError, ChannelInvalidStateError, OSError):
            if delivery.acknowledging is not None:
                await delivery.acknowledging.requeue(delivery.delivery_tag)
            else:
                await delivery.channel.basic_reject(delivery.delivery_tag, requeue=True, wait=False)


async def ack_all(taken: Iterable[Taken]) -> None:
    """Acknowledges them: one frame for all of a channel that came one after the other."""
    alone: dict[Channel, list[int]] = {}
    together: dict[Acknowledger, list[int]] = {}
    for one in taken:
        delivery = one.message
        if delivery.acknowledging is not None:
            together.setdefault(delivery.acknowledging, []).append(delivery.delivery_tag)
        else:
            alone.setdefault(delivery.channel, []).append(delivery.delivery_tag)
    for channel, tags in alone.items():
        if not channel.is_closed:
            payload = frames.acks(channel.number, 0, tags)
            await channel.write_queue.put(ChannelFrame(payload=payload, should_close=False))
    for acknowledging, tags in together.items():
        with suppress(BrokerUnavailable):
            await acknowledging.ack(tags)
