"""Puts messages aside that RabbitMQ can't give to an AMQP 0.9.1 client, so that no such message stops a reader.

RabbitMQ closes the reader's connection over such a message and requeues it. The next connection would end in the same
way. So after such a close, the bridge reads the first messages of the queue over AMQP 1.0, where RabbitMQ converts
nothing. If RabbitMQ can't convert a message, the bridge publishes it to `delay.refused`: its bytes as the body, and the
reason in a header. The bridge leaves the other messages in the queue.

RabbitMQ can't write some messages in AMQP 1.0, and ends the session over them. Then the bridge reads the messages one
by one. RabbitMQ requeues the messages that a session held, and the message that ended the session, behind all other
messages. So the next session begins behind that message, and after some sessions the bridge has read all messages:

    requeued:  a  NULL  uuid  b     a session reads `a`, and ends over NULL
               uuid  b  a  NULL     the next session puts `uuid` aside, reads `b` and `a`, and ends over NULL
               b  a  NULL           an AMQP 0.9.1 client can get all of these

A message that RabbitMQ can write in neither protocol stops its reader. `PutAside.failing` reports that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from ssl import SSLContext
from time import monotonic
from typing import Final, NamedTuple

import structlog

from bridge.broker.amqp10.messages import Header, header, why_not_given
from bridge.broker.amqp10.receiver import DrainCut, Receiver, Transfer, receiving
from bridge.broker.client.channel import Received
from bridge.broker.client.connection import BrokerConnection
from bridge.broker.client.consumer import Consumer
from bridge.broker.copies.properties import MadeMessage, Message, Properties
from bridge.metrics.loops import REFUSED
from bridge.model.errors import BrokerUnavailable
from topology.names import LONGEST_NAME

log = structlog.get_logger(__name__)

CONTENT_TYPE: Final = "application/vnd.delaybridge.amqp-1.0"
"""The content type of a message in `delay.refused` whose body is a whole message of AMQP 1.0."""

_WITHIN_S: Final = 10.0
_LONGEST_SHOWN: Final = 100
_MOST_NEXT: Final = 2_000  # more than a pull, a feed or a search reads at once
_MOST_CUTS: Final = 8  # of sessions in one search; the next search goes on behind them
_MOST_FAILURES: Final = 16  # queues
_REPORTED_AT: Final = 2  # failures before one is reported: after the first, another bridge may have found the message
_SHOWN_S: Final = 60.0
"""How long a failure is reported. A reader that is stopped has its next failure within seconds."""

Refuse = Callable[[Message, str], Awaitable[None]]
"""A function that publishes a message to `delay.refused` with the reason, and returns once RabbitMQ confirms that."""


class _Failure(NamedTuple):
    """The failed searches of one queue. `times`: how many searches failed without a success or a long pause between
    them. `at_s`: when the latest search failed, a moment of `monotonic()`. `reason`: why the latest search failed."""

    at_s: float  # of `monotonic()`
    times: int
    reason: str


class PutAside:
    """Searches queues for messages that RabbitMQ can't give to an AMQP 0.9.1 client. It searches one queue at a time,
    because one crash may cut the connections of many readers."""

    def __init__(self, refuse: Refuse, tls: SSLContext | None) -> None:
        self._refuse = refuse
        self._tls = tls
        self._turn = asyncio.Lock()
        self._failures: dict[str, _Failure] = {}  # by queue, the latest one last

    @property
    def failing(self) -> dict[str, str]:
        """The queues whose search failed at least twice in a row, by name, with the reason of the latest failure. A
        failure is shown for 60 seconds."""
        since_s, failures = monotonic() - _SHOWN_S, self._failures.items()
        return {queue: one.reason for queue, one in failures if one.times >= _REPORTED_AT and one.at_s > since_s}

    async def unreadable(self, url: str, queue: str, most: int) -> None:
        """Searches the queue's first `most` messages, and puts aside those that RabbitMQ can't give to an AMQP 0.9.1
        client.

        `url`: the AMQP URL of the node to ask. Raises no error, because the queue's reader tries again in any case.
        `failing` shows repeated failures.
        """
        try:
            async with self._turn, asyncio.timeout(_WITHIN_S):
                await self._search(url, queue, most)
        except (BrokerUnavailable, TimeoutError) as error:
            self._fail(queue, str(error) or "RabbitMQ did not answer in time")
        else:
            self._failures.pop(queue, None)

    def _fail(self, queue: str, reason: str) -> None:
        now_s = monotonic()
        before = self._failures.pop(queue, None)
        times = 1 if before is None or before.at_s < now_s - _SHOWN_S else before.times + 1
        if times == _REPORTED_AT:
            log.warning("broker.not_put_aside", queue=queue, reason=reason)
        while len(self._failures) >= _MOST_FAILURES:
            del self._failures[next(iter(self._failures))]
        self._failures[queue] = _Failure(now_s, times, reason)

    async def _search(self, url: str, queue: str, most: int) -> None:
        """Searches the queue's first `most` messages.

        Raises:
            DrainCut: RabbitMQ cut the search, and no message was put aside.
            BrokerUnavailable: RabbitMQ did not answer, or the reader's connection was lost.
        """
        at_once, seen, cuts, found = most, 0, 0, 0
        while True:
            try:
                async with receiving(url, queue, self._tls) as receiver:
                    async for taken in receiver.drain(most, at_once=at_once):
                        seen += 1
                        found += await self._judge(receiver, queue, taken)
            except DrainCut:
                if at_once > 1:
                    at_once, seen = 1, 0  # RabbitMQ has requeued an unknown number of messages, so count again
                    continue
                seen, cuts = seen + 1, cuts + 1
                if seen < most and cuts < _MOST_CUTS:
                    continue
                if not found:
                    raise
            return

    async def _judge(self, receiver: Receiver, queue: str, taken: Transfer) -> bool:
        """Puts the message aside if RabbitMQ can't convert it. Returns whether it did."""
        if (judged := _unreadable(queue, taken.message, receiver.version)) is None:
            return False
        message, reason = judged
        await self._refuse(message, reason)
        receiver.accept(taken.number)
        log.warning("broker.put_aside", queue=queue, reason=reason)
        REFUSED.inc()
        return True


class QueueReader:
    """Consumes one of the bridge's queues. Has its own connection, so that no message stops other readers."""

    def __init__(self, connection: BrokerConnection, queue: str, put_aside: PutAside) -> None:
        self.connection = connection
        self._queue = queue
        self._put_aside = put_aside
        self._crashes = 0  # of the connection, when the queue was last searched

    async def open(self, *, prefetch: int, received: Received) -> Consumer:
        """Opens a consumer of the queue, which calls `received` with each delivery. If RabbitMQ has closed the
        connection with an internal error (541), first puts messages aside that may have caused the error.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
            QueueMissing: the queue does not exist.
        """
        await self.look(2 * prefetch)
        return await Consumer.open(self.connection, self._queue, prefetch=prefetch, received=received)

    async def look(self, most: int) -> None:
        """Searches the queue's first `most` messages, if RabbitMQ has closed the connection with an internal error
        (541) since the last search. Puts messages aside that may have caused the error."""
        if (crashes := self.connection.crashes) > self._crashes:
            await self._put_aside.unreadable(self.connection.url, self._queue, most)
            self._crashes = crashes


class TakingGuard:
    """Guards the connections over which callers take messages out of many queues. If RabbitMQ closes one of them with
    an internal error (541), the error does not name the queue. So callers search each queue that they were reading
    then."""

    def __init__(self, connections: Sequence[BrokerConnection], put_aside: PutAside) -> None:
        self._connections = connections
        self._put_aside = put_aside

    @property
    def crashes(self) -> int:
        """How often RabbitMQ has closed these connections with an internal error (541)."""
        return sum(connection.crashes for connection in self._connections)

    async def look(self, queue: str) -> None:
        """Searches the queue's first 2,000 messages, and puts aside those that RabbitMQ can't give to an AMQP 0.9.1
        client."""
        await self._put_aside.unreadable(self._connections[0].url, queue, _MOST_NEXT)


def _unreadable(queue: str, message: bytes, version: tuple[int, ...]) -> tuple[Message, str] | None:
    """Returns the message to put aside, and the reason as text for an operator. None: RabbitMQ can convert the
    message."""
    try:
        read = header(message)
        why = why_not_given(read, version)
    except ValueError as error:
        read, why = Header(), f"it can't be read: {error}"
    if not why:
        return None
    message_id = read.message_id
    sent_to, key = (read.annotation(name)[:_LONGEST_SHOWN] for name in ("x-exchange", "x-routing-key"))
    reason = (
        f"RabbitMQ can't give this AMQP 1.0 message to a bridge, as {why}; it has the message-id "
        f"{message_id[:_LONGEST_SHOWN]!r}, was sent to {sent_to!r} with the key {key!r}, and was in {queue}; "
        "the body has all its bytes"
    )
    own_id = message_id if 0 < len(message_id.encode()) <= LONGEST_NAME else None
    properties = Properties(content_type=CONTENT_TYPE, message_id=own_id)
    return MadeMessage(properties=properties, body=message), reason
