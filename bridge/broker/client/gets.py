"""Takes single messages with `basic.get`. If the caller has given up, the message of the answer is requeued.

Otherwise such a message would stay unacknowledged until its channel closes, and no consumer would get it.
"""

from __future__ import annotations

import asyncio
from collections import deque

from aio_pika.exceptions import AMQPError, ChannelNotFoundEntity

from bridge.broker.client import frames
from bridge.broker.client.acknowledger import Writable
from bridge.broker.client.delivery import Delivery, requeue
from bridge.model.errors import BrokerUnavailable

Got = tuple[Delivery | None, int]
"""The oldest message of a queue, or None if the queue is empty, and how many messages are ready behind it."""


class GetNotRead(BrokerUnavailable):
    """RabbitMQ closed the channel because an earlier get named a missing queue. It has not read this get."""


class Gets:
    """Sends the gets of one channel, and gives each answer to its caller. RabbitMQ answers them in order."""

    def __init__(self, channel: Writable) -> None:
        self._channel = channel
        self._unanswered: deque[asyncio.Future[Got]] = deque()

    async def get(self, queue: str) -> Got:
        """Asks for the oldest message of the queue, and returns RabbitMQ's answer.

        Raises:
            BrokerUnavailable: the channel is closed, or the connection was lost.
            ChannelNotFoundEntity: there is no such queue, and RabbitMQ has closed the channel.
            GetNotRead: RabbitMQ closed the channel over an earlier get, and has not read this one.
        """
        self._channel.write(frames.get(self._channel.number, queue))
        answer: asyncio.Future[Got] = asyncio.get_running_loop().create_future()
        self._unanswered.append(answer)
        try:
            return await answer
        except asyncio.CancelledError:
            if not answer.cancelled() and answer.exception() is None:
                _requeue(answer.result()[0])
            raise

    def answered(self, delivery: Delivery | None, behind: int) -> None:
        """Hands RabbitMQ's next answer to the caller of the oldest unanswered get. `delivery` None: the queue is empty.
        `behind`: how many messages are ready behind the delivery."""
        answer = self._unanswered.popleft()
        if answer.done():
            _requeue(delivery)
        else:
            answer.set_result((delivery, behind))

    def fail(self, error: AMQPError | BrokerUnavailable) -> None:
        """Ends the unanswered gets, as the channel has ended. If a get named a missing queue, it is the oldest one; the
        others then end with `GetNotRead`."""
        for at, answer in enumerate(self._unanswered):
            if answer.done():
                continue
            if at and isinstance(error, ChannelNotFoundEntity):
                answer.set_exception(GetNotRead("RabbitMQ closed the channel over a get from a missing queue"))
            else:
                answer.set_exception(type(error)(*error.args))


def _requeue(delivery: Delivery | None) -> None:
    if delivery is not None:
        requeue(delivery)
