"""Opens a connection to RabbitMQ when a call needs one, and opens another one after it was lost.

The connections and channels are aio-pika's plain classes. Its robust classes would declare objects that an operator
deleted, and would make a request wait for a broker that is away. With the plain ones a request fails within its time
limit, and the next request connects.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from math import inf
from ssl import SSLContext
from time import monotonic
from types import MappingProxyType
from typing import Any, cast

import aio_pika
import aiormq
from aiormq.exceptions import AMQPError, ChannelInvalidStateError, ChannelNotFoundEntity, ConnectionInternalError
from pamqp.common import FieldTable
from yarl import URL

from bridge.broker.client.channel import Channel
from bridge.broker.client.fast_reader import FastReader, RawConnection
from bridge.metrics.broker import RECONNECTS
from bridge.model import background, log_scope
from bridge.model.breaker import Breaker, GuardedCall, guarded
from bridge.model.errors import BrokerUnavailable, BrokerUnfit, QueueMissing
from bridge.model.tls import tls_failure
from topology.channels import open_channel
from topology.closing import close_channel
from topology.connect import refusal
from topology.errors import LoginRefused, TopologyError, VhostRefused

_HEARTBEAT_S = 5  # finds a silent server after some 20 s, a silent client after 10; the default is 60
_CLOSED_WITHIN_S = 0.2

Check = Callable[[dict[str, Any]], None]
"""A function that gets a broker's server properties, and raises if the bridge can't keep its promises on that
broker."""


class BreakerOpen(BrokerUnavailable):
    """The breaker refused the call, so nothing was sent."""


@asynccontextmanager
async def translated(limit_s: float | None = None) -> AsyncIterator[None]:
    """Turns the errors of aio-pika and aiormq, and a passed time limit, into `BrokerUnavailable` or `QueueMissing`."""
    try:
        async with asyncio.timeout(limit_s):
            yield
    except TimeoutError as error:
        raise BrokerUnavailable("RabbitMQ did not answer in time, or blocks publishers") from error
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is None or task.cancelling():
            raise
        # Nobody has cancelled this task: aiormq cancels the calls that wait for a connection that is lost.
        raise BrokerUnavailable("the connection to RabbitMQ was lost") from None
    except ChannelNotFoundEntity as error:
        raise QueueMissing(f"RabbitMQ has no such queue: {error}") from error
    # A lost connection shows as ChannelInvalidStateError, which is a RuntimeError and no AMQPError. A connection that
    # ends before the broker has sent a frame shows as StopAsyncIteration.
    except (AMQPError, ChannelInvalidStateError, ConnectionError, OSError, StopAsyncIteration) as error:
        reason = tls_failure(error) or _reason(error)
        raise BrokerUnavailable(f"RabbitMQ is away or refused: {reason}") from error
    except Exception as error:
        # aiormq sets a plain Exception on the futures of a connection that was lost for an unknown reason.
        if type(error) is not Exception:
            raise
        raise BrokerUnavailable("the connection to RabbitMQ was lost") from error


class BrokerConnection:
    """One connection for one purpose. RabbitMQ blocks publishers by connection, so consumers use another connection.

    `nodes`: the addresses of one cluster's nodes, tried in turn. While the breaker is open, calls fail at once, and an
    open connection stays open.
    """

    def __init__(
        self,
        nodes: Sequence[str],
        *,
        purpose: str,
        timeout_ms: int,
        check: Check,
        breaker: Breaker,
        tls: SSLContext | None = None,
        about: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`purpose`: part of the connection's name in RabbitMQ. `timeout_ms`: the limit for opening the connection or a
        channel. `about`: properties of this bridge that RabbitMQ shows to operators."""
        self._urls = [_with_heartbeat(node.strip()) for node in nodes]
        self._purpose = purpose
        self._about: FieldTable = {**about}
        self._timeout_s = timeout_ms / 1_000
        self._check = check
        self._breaker = breaker
        self._tls = tls
        self._reconnects = RECONNECTS.labels(purpose)
        self._raw: RawConnection | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._opening = asyncio.Lock()
        self._tries = -1  # each try goes to the next node
        self.generation = 0  # counts the connections: on a new one, callers repeat the declares of an earlier one
        self.confirmed_s = -inf  # when a queue last confirmed a message over this connection
        self.crashes = 0
        """How many connections RabbitMQ has closed over an error of its own, such as a message it can't convert."""

    @property
    def nodes(self) -> int:
        """How many nodes there are to connect to."""
        return len(self._urls)

    @property
    def has_other_nodes(self) -> bool:
        """Whether there is another node to connect to."""
        return self.nodes > 1

    @property
    def url(self) -> str:
        """The address of the node to which the last attempt to connect went; before that, of the first node."""
        return self._urls[max(0, self._tries) % len(self._urls)]

    @property
    def is_open(self) -> bool:
        # aio-pika takes a lost connection for open until we close it.
        transport = None if self._raw is None else self._raw.transport
        return transport is not None and not transport.connection.is_closed

    async def raw_connection(self) -> RawConnection:
        """Returns the open connection of aio-pika; opens one if none is open.

        Raises:
            BrokerUnavailable: no node could be reached in time.
            BrokerUnfit: the bridge can't keep its promises on the node that was reached.
        """
        if self._raw is not None and self.is_open:
            return self._raw
        async with self._opening:
            if self._raw is not None and self.is_open:
                return self._raw
            await self.drop()
            async with self.asking(self._timeout_s):
                # Counted after the breaker has admitted the call. A refused call would skip a node, perhaps each time
                # the one that answers.
                self._tries += 1
                with log_scope.shared():
                    raw = await aio_pika.connect(
                        self._urls[self._tries % len(self._urls)],
                        timeout=self._timeout_s,
                        client_properties={
                            "connection_name": f"delaybridge {self._purpose}",
                            "delaybridge": self._about,
                        },
                        ssl_context=self._tls,
                        connection_class=RawConnection,
                    )
            try:
                self._check(_server_properties(raw))
            except TopologyError as error:
                await raw.close()
                raise BrokerUnfit(str(error)) from error
            self._raw = raw
            if raw.transport is not None:
                raw.transport.connection.closing.add_done_callback(self._closed)
            if self.generation:
                self._reconnects.inc()
            self.generation += 1
            return raw

    async def raw_channel(self, *, confirms: bool = False) -> aiormq.Channel:
        """Opens a channel of aiormq, to which callers can write frames themselves. `confirms`: RabbitMQ confirms the
        publishes on this channel.

        Raises:
            BrokerUnavailable
        """
        raw = await self.raw_connection()
        async with self.asking(self._timeout_s):
            with log_scope.shared():
                return cast(aiormq.Channel, await open_channel(raw, confirms=confirms))

    async def channel(self) -> Channel:
        """Opens a channel for taking messages out of queues.

        Raises:
            BrokerUnavailable
        """
        raw = await self.raw_channel()
        return Channel(raw, self.reader_of(raw))

    async def close(self, channel: Channel) -> None:
        """Closes a channel. RabbitMQ requeues its unacknowledged deliveries."""
        with suppress(BrokerUnavailable):
            async with translated(self._timeout_s):
                await channel.close()

    async def queue_exists(self, queue: str, limit_s: float) -> bool:
        """Whether RabbitMQ has the queue.

        Raises:
            BrokerUnavailable
        """
        try:
            await self.depth(queue, limit_s)
        except QueueMissing:
            return False  # and RabbitMQ has closed the channel
        return True

    async def depth(self, queue: str, limit_s: float) -> int:
        """Returns how many messages are ready in the queue, without those that consumers hold.

        Raises:
            BrokerUnavailable
            QueueMissing
        """
        channel = await self.channel()
        async with translated(limit_s):
            depth = await channel.depth(queue)
            await channel.close()
        return depth

    def reader_of(self, channel: aiormq.Channel) -> FastReader:
        """Returns the reader that takes the deliveries of the channel.

        Raises:
            BrokerUnavailable: the channel's connection is gone.
        """
        raw = self._raw
        transport = None if raw is None else raw.transport
        if raw is None or transport is None or transport.connection is not channel.connection:
            raise BrokerUnavailable("the connection to RabbitMQ was lost")
        return raw.reader

    @asynccontextmanager
    async def asking(self, limit_s: float) -> AsyncIterator[GuardedCall]:
        """Runs one call that the broker has to answer within `limit_s` seconds, and translates errors as `translated`
        does. The breaker may refuse the call.

        Do not nest this context: the breaker allows one call at a time when it is half open.

        If a call times out, its node may be frozen or cut off from the majority. Then the bridge leaves the node, if
        there are other nodes. It stays if the broker only blocks publishers, or if a queue has confirmed a message over
        the connection since the call began. A node that is cut off answers some calls, but no call that needs a queue.
        """
        generation, began_s = self.generation, monotonic()
        async with translated():
            with guarded(self._breaker, "RabbitMQ", BreakerOpen) as call:
                try:
                    async with asyncio.timeout(limit_s):
                        yield call
                except TimeoutError:
                    call.conclusive = self.confirmed_s < began_s and not await self.blocked()
                    if call.conclusive and self.has_other_nodes:
                        await self.drop(generation)
                    raise

    async def ping(self) -> None:
        """Opens and closes a channel, so that the broker has to answer.

        Raises:
            BrokerUnavailable
        """
        channel = await self.raw_channel()
        async with translated(self._timeout_s):
            await close_channel(channel)

    async def blocked(self) -> bool:
        """Whether the broker blocks publishers now (memory or disk alarm)."""
        if self._raw is None or self._raw.transport is None:
            return False
        try:
            async with asyncio.timeout(0):
                await self._raw.transport.connection.ready()
        except TimeoutError:
            return True
        return False

    def doubt(self) -> None:
        """Tells the breaker that a call was not made, because the broker would not take the call."""
        self._breaker.troubled_s = monotonic()

    def _closed(self, closing: asyncio.Future[Any]) -> None:
        if not closing.cancelled() and isinstance(closing.exception(), ConnectionInternalError):
            self.crashes += 1

    async def drop(self, generation: int | None = None) -> None:
        """Closes the connection, and RabbitMQ redelivers its unacknowledged messages.

        `generation`: closes only the connection with this number, and no later one. None: the present one.
        """
        if generation not in (None, self.generation):
            return
        raw, self._raw = self._raw, None
        if raw is not None:
            # A frozen broker answers no close; the socket closes all the same. This is a task, since a close that does
            # not end, whatever its time limit, would block everybody who wants a new connection.
            closing = background.begin(_close(raw), "close a connection")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            await asyncio.wait({closing}, timeout=2 * _CLOSED_WITHIN_S)


async def _close(raw: RawConnection) -> None:
    with suppress(BrokerUnavailable):
        async with translated(_CLOSED_WITHIN_S):
            await raw.close()


def _server_properties(raw: RawConnection) -> dict[str, Any]:
    transport = raw.transport
    return dict(transport.connection.server_properties) if transport is not None else {}


def _reason(error: BaseException) -> str:
    if isinstance(error, AMQPError) and isinstance(meaning := refusal(error), LoginRefused | VhostRefused):
        return str(meaning)
    return f"{type(error).__name__} {error}"


def _with_heartbeat(url: str) -> str:
    address = URL(url)
    return url if "heartbeat" in address.query else str(address.update_query(heartbeat=_HEARTBEAT_S))
