"""Shares channels among long polls, and closes each channel on which a message may have been lost on its way."""

from __future__ import annotations

import asyncio

from bridge.broker.client.channel import Channel
from bridge.broker.client.connection import BrokerConnection, translated
from bridge.broker.client.delivery import Delivery
from bridge.broker.ready.taken import Taken

_MOST = 32  # RabbitMQ ends a connection with 2,047
_DOUBTED_FOR_S = 1.0


class PollChannel:
    """A channel that several polls share. Each poll has its own consumers.

    `turn`: held for each question, since RabbitMQ answers those of a channel one after the other. `doubted`: a message
    may have been lost on it. `old`: it takes no more polls. `broken`: RabbitMQ did not answer on it.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.acknowledger = channel.acknowledger()
        self.turn = asyncio.Lock()
        self.polls = 0
        self.doubted = self.old = self.broken = self.retired = False

    def taken(self, queue: str, delivery: Delivery) -> Taken:
        delivery.acknowledger = self.acknowledger
        self.acknowledger.delivered(delivery.delivery_tag)
        return Taken(queue, delivery)


class PollChannels:
    """The channels of one connection, the youngest last. New polls share the youngest."""

    def __init__(self, connection: BrokerConnection, *, timeout_ms: int) -> None:
        self._connection = connection
        self._timeout_s = timeout_ms / 1_000
        self._channels: list[PollChannel] = []
        self._opening = asyncio.Lock()

    async def join(self) -> PollChannel:
        """Returns the channel for a new poll.

        Raises:
            BrokerUnavailable
        """
        async with self._opening:
            self._channels = [shared for shared in self._channels if not shared.channel.is_closed]
            in_use = [shared for shared in self._channels if not (shared.retired or shared.broken)]
            if not in_use or (in_use[-1].old and len(self._channels) < _MOST):
                in_use.append(await self._open())
            in_use[-1].polls += 1
            return in_use[-1]

    def leave(self, shared: PollChannel, *, doubted: bool) -> None:
        """Ends one poll. `doubted`: no message came, so one may have been lost on its way.

        A doubted channel takes new polls for a second; otherwise many short polls would open a channel each. The last
        of its polls retires it.
        """
        shared.polls -= 1
        if doubted and not shared.doubted:
            shared.doubted = True
            asyncio.get_running_loop().call_later(_DOUBTED_FOR_S, self._age, shared)
        self._retire_if_unused(shared)

    def _age(self, shared: PollChannel) -> None:
        shared.old = True
        self._retire_if_unused(shared)

    def _retire_if_unused(self, shared: PollChannel) -> None:
        if shared.old and not (shared.polls or shared.retired):
            shared.retired = True
            shared.acknowledger.retire(lambda: self._connection.close(shared.channel))

    async def _open(self) -> PollChannel:
        channel = await self._connection.channel()
        async with translated(self._timeout_s):
            # Holds for each consumer: none gets a second message before its first is acknowledged.
            await channel.set_prefetch(1)
        self._channels.append(shared := PollChannel(channel))
        return shared
