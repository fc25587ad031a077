"""Acknowledges and requeues the deliveries of one channel, with as few frames as possible."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from math import inf
from time import monotonic
from typing import Final, Protocol

from pamqp.commands import Basic

from bridge.broker.client import frames
from bridge.broker.client.ack_window import AckWindow
from bridge.model import background
from bridge.model.errors import BrokerUnavailable

PASSED_ON_AFTER_S: Final = 1.0
"""How long RabbitMQ may take to pass an ack on to a quorum queue; it passes acks on in batches. Acks that still wait
when the channel closes are lost, and RabbitMQ redelivers their messages."""


class Writable(Protocol):
    """A channel to which frames can be written. `number`: the channel's number in its frames. `is_open`: False once the
    channel takes no more frames."""

    number: int

    @property
    def is_open(self) -> bool: ...

    def write(self, payload: bytes) -> None: ...


class Acknowledger:
    """Acknowledges all deliveries of a channel; no other code may acknowledge them."""

    def __init__(self, channel: Writable) -> None:
        self._channel = channel
        self._window = AckWindow()
        self._last_ack_s = -inf
        self._close: Callable[[], Awaitable[None]] | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether deliveries can still be acknowledged. RabbitMQ redelivers the unacknowledged deliveries of a closed
        channel."""
        return self._channel.is_open

    @property
    def held(self) -> int:
        """How many deliveries are neither acknowledged nor requeued."""
        return self._window.held

    def delivered(self, tag: int) -> None:
        """Takes note of a delivery, which is unacknowledged from now on. Callers pass the channel's deliveries in the
        order of their tags."""
        self._window.delivered(tag)

    def ack(self, tags: Iterable[int]) -> None:
        """Acknowledges deliveries. One frame acknowledges many deliveries if all earlier deliveries are finished.

        Raises:
            BrokerUnavailable: the channel is closed, and RabbitMQ redelivers them.
        """
        if not self.is_open:
            raise BrokerUnavailable("the channel is closed, and RabbitMQ redelivers its messages")
        acks = self._window.done(tags)
        if payload := frames.acks(self._channel.number, acks.up_to, acks.single):
            self._channel.write(payload)
            self._last_ack_s = monotonic()
        self._close_if_retired()

    def requeue(self, tag: int) -> None:
        """Requeues a delivery at its old position in the queue.

        Raises:
            BrokerUnavailable: the channel is closed, and RabbitMQ redelivers it.
        """
        self._window.done([tag])
        # From RabbitMQ 4.3 on a nack is not counted as a delivery. A message that no pull can lease would then be
        # redelivered for ever.
        self._channel.write(frames.method(self._channel.number, Basic.Reject(delivery_tag=tag, requeue=True)))
        self._close_if_retired()

    def retire(self, close: Callable[[], Awaitable[None]]) -> None:
        """Calls `close`, which closes the channel, once all deliveries of the channel are acknowledged or requeued.
        Waits a second after the last ack first (`PASSED_ON_AFTER_S`).

        The close brings back lost messages. If a queue's leader ends, a message on its way to the channel is lost. The
        next leader counts the message as delivered (rabbitmq-server #15473). RabbitMQ requeues it when the channel
        closes.
        """
        self._close = close
        self._close_if_retired()

    def _close_if_retired(self) -> None:
        if self._close is not None and self._closing is None and not self.held:
            self._closing = background.begin(self._close_later(self._close), "close a channel")

    async def _close_later(self, close: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(self._last_ack_s + PASSED_ON_AFTER_S - monotonic())
        await close()
