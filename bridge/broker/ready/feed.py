"""Feeds the pulls of one queue through one shared consumer. RabbitMQ sends each message as soon as it is ready.

The messages that the consumer got are in a buffer until a pull takes them. The window is the most messages that are in
the buffer or not acknowledged yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic

from bridge.broker.client.channel import new_tag
from bridge.broker.client.connection import BrokerConnection, translated
from bridge.broker.client.delivery import Delivery
from bridge.broker.ready.feed_channels import FeedChannel, FeedChannels
from bridge.broker.ready.taken import Taken
from bridge.model.errors import BrokerUnavailable, QueueMissing

_OUTDATED_AFTER_S = 60.0
"""A feed leaves its channel once the channel has been old for this long. RabbitMQ redelivers a message that was lost on
its way to another feed only when the channel closes."""


class Feeds:
    """Opens feeds over one connection. Callers declare the queues."""

    def __init__(self, connection: BrokerConnection, *, timeout_ms: int) -> None:
        self.connection = connection
        self.timeout_s = timeout_ms / 1_000
        self.channels = FeedChannels(connection)

    async def open(self, queue: str, window: int, changed: Callable[[], None]) -> Feed:
        """Opens a feed of a queue. When this returns, the messages that were ready are in the buffer, up to `window`.

        `changed`: called when a message comes, or when no more messages can come.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
            QueueMissing: the queue does not exist.
        """
        feed = Feed(self, await self.channels.join(), queue, changed)
        try:
            await feed.resize(window)
        except BaseException:
            await feed.cancel()
            feed.leave()
            for one in feed.buffer:
                one.requeue()
            raise
        return feed


class Feed:
    """One queue's consumer. `buffer`: the messages that no pull has taken yet, the oldest first. `heard_s`: when the
    last message came, or when the feed was opened; a moment of `monotonic()`."""

    def __init__(self, feeds: Feeds, shared: FeedChannel, queue: str, changed: Callable[[], None]) -> None:
        self.buffer: deque[Taken] = deque()
        self.window = 0
        self._opened_s = self.heard_s = monotonic()
        self._feeds = feeds
        self._shared = shared
        self._queue = queue
        self._changed = changed
        self._tags: list[str] = []
        self._missing = False
        shared.channel.ended.add_done_callback(self._channel_ended)

    @property
    def error(self) -> BrokerUnavailable | None:
        """Why no more messages can come: somebody deleted the queue, or the channel closed. None: messages can come."""
        if self._missing:
            return QueueMissing(f"somebody deleted the queue {self._queue} while pulls waited for its messages")
        if not self._shared.channel.is_open:
            return BrokerUnavailable("RabbitMQ closed the channel of waiting pulls")
        return None

    @property
    def is_outdated(self) -> bool:
        """Whether the feed should end, so that its channel can close: its channel has been old for 60 seconds. If the
        feed joined a channel that was already old, the 60 seconds count from when the feed was opened."""
        return monotonic() - max(self._opened_s, self._shared.old_since_s) > _OUTDATED_AFTER_S

    async def resize(self, window: int) -> None:
        """Replaces the consumer by one with this window. When this returns, the messages that were ready have arrived.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
            QueueMissing: the queue does not exist.
        """
        channel, former = self._shared.channel, [*self._tags]
        async with self._shared.turn, self._feeds.connection.asking(self._feeds.timeout_s):
            if self._shared.prefetch != window:
                await channel.set_prefetch(window)
                self._shared.prefetch = window
            self._tags.append(tag := new_tag())
            await channel.consume(self._queue, self._received, tag, self._cancelled)
            self.window = window
            for one in former:
                await channel.cancel(one)
                self._tags.remove(one)
            await channel.depth(self._queue)

    async def gather(self) -> int:
        """Waits until messages on their way have arrived. Returns how many more messages are ready in the queue.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
            QueueMissing: the queue does not exist.
        """
        async with self._shared.turn, self._feeds.connection.asking(self._feeds.timeout_s):
            return await self._shared.channel.depth(self._queue)

    async def cancel(self) -> None:
        """Cancels the consumer. If RabbitMQ answers, a message on its way is in the buffer when this returns."""
        try:
            async with self._shared.turn:
                if self._tags and not self._shared.broken:
                    await self._cancel()
        finally:
            for tag in self._tags:
                self._shared.channel.forget(tag)
            self._tags.clear()

    def take(self, count: int) -> list[Taken]:
        """Takes up to `count` messages out of the buffer, the oldest first."""
        return [self.buffer.popleft() for _ in range(min(count, len(self.buffer)))]

    def leave(self, *, silent: bool = False) -> None:
        """Ends the feed's use of its channel. Messages that pulls have taken can still be acknowledged. `silent`: the
        feed got no message for long, so new feeds use another channel."""
        self._shared.channel.ended.remove_done_callback(self._channel_ended)
        self._feeds.channels.leave(self._shared, silent=silent)

    async def _cancel(self) -> None:
        try:
            async with translated(self._feeds.timeout_s):
                for tag in self._tags:
                    await self._shared.channel.cancel(tag)
        except BrokerUnavailable:
            # Other feeds of this channel need not wait for an answer that does not come.
            self._shared.broken = True

    def _received(self, delivery: Delivery) -> None:
        self.heard_s = monotonic()
        self.buffer.append(Taken(self._queue, delivery))
        self._changed()

    def _cancelled(self) -> None:
        self._missing = True
        self._changed()

    def _channel_ended(self, _: object) -> None:
        self._changed()
