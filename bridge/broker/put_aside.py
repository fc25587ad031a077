"""Puts messages aside that RabbitMQ can't give to an AMQP 0.9.1 client, so that no such message stops a reader.

RabbitMQ closes the reader's connection over such a message, requeues it, and does the same again. So after such a close
the first messages of the queue are read over AMQP 1.0, where RabbitMQ converts nothing. Each that it can't convert goes
to `delay.refused`: its bytes as the body, and the reason in a header. The others are left in the queue.

RabbitMQ can't write some messages in AMQP 1.0, and ends that session over them. Then they are read one by one. What a
session held comes behind all else that RabbitMQ has requeued, as the message at fault has been. So each next session
begins behind the message that ended the one before, until all have been seen:

    requeued:  a  NULL  uuid  b     a session reads `a`, and ends over NULL
               uuid  b  a  NULL     the next one puts `uuid` aside, reads `b` and `a`, and ends over NULL
               b  a  NULL           AMQP 0.9.1 can have all of them

A message that neither protocol can have stops its reader. `PutAside.in_vain` tells it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ssl import SSLContext
from time import monotonic
from typing import Final, NamedTuple

import structlog

from bridge.broker.amqp10.messages import Header, header, why_not_given
from bridge.broker.amqp10.receiver import DrainCut, Receiver, Taken, receiving
from bridge.broker.client.connection import BrokerConnection
from bridge.broker.client.consumer import Consumer
from bridge.broker.client.reader import Received
from bridge.broker.copies.properties import Message, Properties
from bridge.metrics.loops import REFUSED
from bridge.model.errors import BrokerUnavailable
from topology.names import LONGEST_NAME

log = structlog.get_logger(__name__)

CONTENT_TYPE: Final = "application/vnd.delaybridge.amqp-1.0"
"""Of a message in `delay.refused` whose body is a whole message of AMQP 1.0."""

_WITHIN_S: Final = 10.0
_LONGEST_SHOWN: Final = 100
_MOST_NEXT: Final = 2_000  # more than a pull, a feed or a search reads at once
_MOST_CUTS: Final = 8  # of sessions in one search; the next search goes on behind them
_MOST_FAILURES: Final = 16  # queues
_TOLD_AT: Final = 2  # times: another bridge may have found the message
_SHOWN_S: Final = 60.0
"""How long a failure is a finding. A reader that is stopped has the next one within seconds."""

Refuse = Callable[[Message, str], Awaitable[None]]
"""Publishes a message to `delay.refused`, with the reason, and returns once that is confirmed."""


@dataclass(frozen=True, slots=True)
class _AsBytes:
    """A message of AMQP 1.0 as the body of a message of AMQP 0.9.1."""

    properties: Properties
    body: bytes
    delivery_tag: int = 0
    exchange: str = ""
    routing_key: str = ""
    redelivered: bool = False


class _Failure(NamedTuple):
    """That a queue was searched in vain. `times`: without a success or a long pause between."""

    at_s: float  # of `monotonic()`
    times: int
    reason: str


class PutAside:
    """One queue at a time: a crash may have cut the readers of many."""

    def __init__(self, refuse: Refuse, tls: SSLContext | None) -> None:
        self._refuse = refuse
        self._tls = tls
        self._turn = asyncio.Lock()
        self._failures: dict[str, _Failure] = {}  # by queue, the latest one last

    @property
    def in_vain(self) -> dict[str, str]:
        """The queues that were lately searched in vain, and not only once, with the reasons."""
        since_s, failures = monotonic() - _SHOWN_S, self._failures.items()
        return {queue: one.reason for queue, one in failures if one.times >= _TOLD_AT and one.at_s > since_s}

    async def unreadable(self, url: str, queue: str, most: int) -> None:
        """Puts those aside of the queue's first `most` messages.

        `url`: the node to ask. A failure is told: the queue's reader tries again in any case.
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
        if times == _TOLD_AT:
            log.warning("broker.not_put_aside", queue=queue, reason=reason)
        while len(self._failures) >= _MOST_FAILURES:
            del self._failures[next(iter(self._failures))]
        self._failures[queue] = _Failure(now_s, times, reason)

    async def _search(self, url: str, queue: str, most: int) -> None:
        """Raises BrokerUnavailable, such as DrainCut where nothing was put aside."""
        at_once, seen, cuts, found = most, 0, 0, 0
        while True:
            try:
                async with receiving(url, queue, self._tls) as receiver:
                    async for taken in receiver.drain(most, at_once=at_once):
                        seen += 1
                        found += await self._judge(receiver, queue, taken)
            except DrainCut:
                if at_once > 1:
                    at_once, seen = 1, 0  # RabbitMQ has taken an unknown number out of the queue, and given them back
                    continue
                seen, cuts = seen + 1, cuts + 1
                if seen < most and cuts < _MOST_CUTS:
                    continue
                if not found:
                    raise
            return

    async def _judge(self, receiver: Receiver, queue: str, taken: Taken) -> bool:
        """Returns whether it has put the message aside."""
        if (judged := _unreadable(queue, taken.message, receiver.version)) is None:
            return False
        message, reason = judged
        await self._refuse(message, reason)
        receiver.accept(taken.number)
        log.warning("broker.put_aside", queue=queue, reason=reason)
        REFUSED.inc()
        return True


class QueueReader:
    """Consumes one of the bridge's own queues over a connection of its own, so that no message stops other readers."""

    def __init__(self, connection: BrokerConnection, queue: str, put_aside: PutAside) -> None:
        self.connection = connection
        self._queue = queue
        self._put_aside = put_aside
        self._crashes = 0  # of the connection, when the queue was last looked through

    async def open(self, *, prefetch: int, received: Received) -> Consumer:
        """Opens a consumer, as `Consumer.open` does. After RabbitMQ has closed the connection over an error of its own,
        puts the messages aside that may have caused it.

        Raises:
            BrokerUnavailable
            QueueMissing
        """
        await self.look(2 * prefetch)
        return await Consumer.open(self.connection, self._queue, prefetch=prefetch, received=received)

    async def look(self, most: int) -> None:
        """Looks through the queue's first `most` messages, if the connection was closed so since the last look."""
        if (crashes := self.connection.crashes) > self._crashes:
            await self._put_aside.unreadable(self.connection.url, self._queue, most)
            self._crashes = crashes


class TakingGuard:
    """Counts the crashes of the connections that take messages out of any queue. A crash does not say which queue it
    was. So each that was read meanwhile is looked through."""

    def __init__(self, connections: Sequence[BrokerConnection], put_aside: PutAside) -> None:
        self._connections = connections
        self._put_aside = put_aside

    @property
    def crashes(self) -> int:
        """How many connections RabbitMQ has closed over an error of its own."""
        return sum(connection.crashes for connection in self._connections)

    async def look(self, queue: str) -> None:
        """Puts messages aside of those that are next in the queue."""
        await self._put_aside.unreadable(self._connections[0].url, queue, _MOST_NEXT)


def _unreadable(queue: str, message: bytes, version: tuple[int, ...]) -> tuple[Message, str] | None:
    """Returns what is put aside of a message, and why, as text for an operator. None: RabbitMQ can convert it."""
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
    return _AsBytes(Properties(content_type=CONTENT_TYPE, message_id=own_id), message), reason
