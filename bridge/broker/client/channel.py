"""Wraps a channel of aiormq for the modules that take messages out of queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import aiormq
from pamqp.commands import Basic

from bridge.broker.client.acknowledger import Acknowledger
from bridge.broker.client.fast_reader import FastReader, new_tag
from bridge.broker.client.gets import Gets, Got
from bridge.broker.client.reader import Received
from bridge.broker.client.write import is_open
from topology.closing import close_channel

__all__ = ["Channel", "new_tag"]


class Channel:
    """A channel. Its methods raise the errors of aiormq; callers translate them with `connection.translated`."""

    def __init__(self, raw: aiormq.Channel, reader: FastReader) -> None:
        self._raw = raw
        self._reader = reader
        self._gets: Gets | None = None

    @property
    def is_closed(self) -> bool:
        return not is_open(self._raw)

    def acknowledger(self) -> Acknowledger:
        """Makes the acknowledger of the channel. A channel may have only one acknowledger."""
        return Acknowledger(self._raw)

    async def close(self) -> None:
        """Closes the channel. RabbitMQ requeues all unacknowledged deliveries."""
        await close_channel(self._raw)

    async def depth(self, queue: str) -> int:
        """Returns how many messages are ready in the queue."""
        return (await self._raw.queue_declare(queue, passive=True)).message_count or 0

    async def set_prefetch(self, count: int) -> None:
        """Sets the prefetch: each consumer that begins later holds at most `count` unacknowledged deliveries."""
        await self._raw.basic_qos(prefetch_count=count)

    async def get(self, queue: str) -> Got:
        """Takes the oldest message of the queue. If the caller is cancelled, the bridge requeues the message. Raises
        `Unread` besides the errors of aiormq."""
        if self._gets is None:
            self._gets = self._reader.gets_of(self._raw)
        return await self._gets.get(queue)

    async def consume(self, queue: str, received: Received, tag: str = "") -> str:
        """Calls `received` with each delivery until `cancel` or `forget`. Returns the consumer's tag.

        `tag`: the caller may choose the tag (`new_tag`), to cancel the consumer even if this call fails half-way.
        """
        return await self._reader.consume(self._raw, queue, received, tag)

    async def cancel(self, tag: str) -> None:
        """Cancels a consumer. Before this method returns, messages on their way to the consumer arrive, or RabbitMQ
        requeues them."""
        try:
            # RabbitMQ may have cancelled the consumer itself, because somebody deleted the queue.
            if tag in self._raw.consumers:
                await self._raw.basic_cancel(tag)
        finally:
            self.forget(tag)

    def forget(self, tag: str) -> None:
        """Ignores further deliveries of a consumer."""
        self._reader.forget(tag)

    @contextmanager
    def on_cancelled(self, cancelled: Callable[[str], None]) -> Iterator[None]:
        """Within the context, calls `cancelled` with the tag of each consumer that RabbitMQ cancels."""

        def received(frame: Basic.Cancel) -> None:
            cancelled(frame.consumer_tag or "")

        self._raw.on_consumer_cancel_callbacks.add(received)
        try:
            yield
        finally:
            self._raw.on_consumer_cancel_callbacks.discard(received)

    @contextmanager
    def on_closed(self, closed: Callable[[], None]) -> Iterator[None]:
        """Within the context, calls `closed` when the channel closes."""

        def ended(_: object) -> None:
            closed()

        # A future of our own: it can be cancelled without any effect on the channel.
        closing = self._raw.closing
        closing.add_done_callback(ended)
        try:
            yield
        finally:
            closing.remove_done_callback(ended)
            if not closing.done():
                closing.cancel()
