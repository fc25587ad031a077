"""Takes single messages with `basic.get`. If the caller has given up, the message of the answer is requeued.

aiormq forgets a get whose caller gave up while the answer was on its way. The message of such an answer would stay
unacknowledged until its channel closes, and no consumer would get the message.
"""

from __future__ import annotations

import asyncio
from collections import deque

from aiormq import Channel
from aiormq.exceptions import ChannelNotFoundEntity

from bridge.broker.client import frames
from bridge.broker.client.delivery import Delivery, requeue
from bridge.broker.client.write import write
from bridge.model import background
from bridge.model.errors import BrokerUnavailable

Got = tuple[Delivery | None, int]
"""The oldest message of a queue, or None if the queue is empty, and how many messages are ready behind it."""


class Unread(BrokerUnavailable):
    """RabbitMQ closed the channel because an earlier get named a missing queue. It has not read this get."""


class Gets:
    """The gets of one channel. RabbitMQ answers them in order."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._writing = asyncio.Lock()
        self._unanswered: deque[asyncio.Future[Got]] = deque()
        self._requeuing: set[asyncio.Task[None]] = set()

    async def get(self, queue: str) -> Got:
        """Asks for the oldest message. Raises the errors of aiormq, and Unread."""
        async with self._writing:
            await write(self.channel, frames.get(self.channel.number, queue))
            # aiormq fails this future when the channel closes.
            answer: asyncio.Future[Got] = self.channel.create_future()
            self._unanswered.append(answer)
        try:
            return await answer
        except asyncio.CancelledError:
            if not answer.cancelled() and answer.exception() is None:
                self._requeue(answer.result()[0])
            raise
        except ChannelNotFoundEntity as error:
            if answer is self._unanswered[0]:
                raise
            raise Unread("RabbitMQ closed the channel over a get from a missing queue") from error

    def answered(self, delivery: Delivery | None, behind: int) -> None:
        """Hands RabbitMQ's next answer to the caller of the oldest unanswered get. `delivery` None: the queue is empty.
        `behind`: how many messages are ready behind the delivery."""
        answer = self._unanswered.popleft()
        if answer.done():
            self._requeue(delivery)
        else:
            answer.set_result((delivery, behind))

    def _requeue(self, delivery: Delivery | None) -> None:
        if delivery is not None:
            requeuing = background.begin(requeue(delivery), "requeue a message")
            self._requeuing.add(requeuing)
            requeuing.add_done_callback(self._requeuing.discard)
