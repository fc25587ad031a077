"""Shares channels among feeds, and closes each channel on which a message may have been lost on its way."""

from __future__ import annotations

import asyncio
from math import inf
from time import monotonic
from typing import Final

from bridge.broker.client.channel import Channel
from bridge.broker.client.connection import BrokerConnection

_MOST: Final = 32  # channels; RabbitMQ allows 2,047 a connection
_DOUBTED_FOR_S = 1.0


class FeedChannel:
    """A channel that several feeds share. Each feed has its own consumer.

    `turn`: held during each call to RabbitMQ, which answers the calls on a channel one after the other. `feeds`: how
    many feeds use the channel. `prefetch`: the prefetch of its next consumer. `doubted`: a message may have been lost
    on the channel. `old_since_s`: since when new feeds open another channel instead, a moment of `monotonic()`;
    infinite: it is not old. `broken`: RabbitMQ did not answer on it. `retired`: it closes once its deliveries are
    acknowledged or requeued.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.turn = asyncio.Lock()
        self.feeds = self.prefetch = 0
        self.doubted = self.broken = self.retired = False
        self.old_since_s = inf

    @property
    def is_old(self) -> bool:
        return self.old_since_s < inf


class FeedChannels:
    """The channels of one connection, the youngest last. New feeds share the youngest."""

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection
        self._channels: list[FeedChannel] = []
        self._opening = asyncio.Lock()

    async def join(self) -> FeedChannel:
        """Returns the channel for a new feed.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        """
        async with self._opening:
            self._channels = [shared for shared in self._channels if shared.channel.is_open]
            in_use = [shared for shared in self._channels if not (shared.retired or shared.broken)]
            if not in_use or (in_use[-1].is_old and len(self._channels) < _MOST):
                in_use.append(FeedChannel(await self._connection.channel()))
                self._channels.append(in_use[-1])
            in_use[-1].feeds += 1
            return in_use[-1]

    def leave(self, shared: FeedChannel, *, silent: bool = False) -> None:
        """Ends one feed's use of the channel. One of the feed's messages may have been lost on its way, and RabbitMQ
        requeues such a message only when the channel closes.

        So the channel is retired when its last feed has ended. It takes new feeds for another second, as otherwise many
        short feeds would each open a channel. `silent`: the feed got no message for long, so the channel takes no new
        feeds from now on.
        """
        shared.feeds -= 1
        if silent:
            self._age(shared)
        elif not shared.doubted:
            shared.doubted = True
            asyncio.get_running_loop().call_later(_DOUBTED_FOR_S, self._age, shared)
        self._retire_if_unused(shared)

    def _age(self, shared: FeedChannel) -> None:
        shared.old_since_s = min(shared.old_since_s, monotonic())
        self._retire_if_unused(shared)

    def _retire_if_unused(self, shared: FeedChannel) -> None:
        # A channel may be closed with its connection, also as the process ends.
        if shared.is_old and not (shared.feeds or shared.retired) and shared.channel.is_open:
            shared.retired = True
            shared.channel.acknowledger.retire(lambda: self._connection.close(shared.channel))
