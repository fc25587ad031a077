"""Opens a connection to RabbitMQ when a call needs one, and opens another one after it was lost.

While RabbitMQ is away, a request fails within its time limit, and the next request connects. After a timeout, a circuit
breaker (`bridge/model/breaker.py`) refuses calls for up to two seconds at a time. A new connection does not repeat
declares and consumes, because an operator may have deleted the objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from ssl import SSLContext
from time import monotonic
from types import MappingProxyType
from typing import Any, Final

from aio_pika.exceptions import AMQPError, ChannelInvalidStateError, ChannelNotFoundEntity

from bridge.broker.client.channel import Channel, open_channel
from bridge.broker.client.handshake import connect
from bridge.broker.client.transport import Transport
from bridge.metrics.broker import RECONNECTS
from bridge.model import background, log_scope
from bridge.model.breaker import Breaker, GuardedCall, guarded
from bridge.model.errors import BrokerUnavailable, BrokerUnfit, QueueMissing
from bridge.model.time_limit import TimeLimit
from bridge.model.tls import tls_failure
from bridge.settings.amqp_login import read_login
from topology.errors import ConnectionFailed, TopologyError

_CLOSED_WITHIN_S: Final = 0.2

Check = Callable[[dict[str, Any]], None]
"""A function that gets a broker's server properties. It raises TopologyError if the bridge can't keep its promises on
that broker."""


class BreakerOpen(BrokerUnavailable):
    """The breaker refused the call, so nothing was sent."""


@asynccontextmanager
async def translated(limit_s: float | None = None) -> AsyncIterator[None]:
    """Raises only `BrokerUnavailable` or `QueueMissing` for what goes wrong with RabbitMQ within the context: a
    refusal, a connection that can't be opened or is lost, or a passed time limit. `limit_s` None: no time limit."""
    try:
        async with TimeLimit(limit_s):
            yield
    except TimeoutError as error:
        raise BrokerUnavailable("RabbitMQ did not answer in time, or blocks publishers") from error
    except ChannelNotFoundEntity as error:
        raise QueueMissing(f"RabbitMQ has no such queue: {error}") from error
    except (AMQPError, ChannelInvalidStateError, ConnectionFailed, OSError) as error:
        refused = isinstance(error, ConnectionFailed)
        reason = tls_failure(error) or (str(error) if refused else f"{type(error).__name__} {error}")
        raise BrokerUnavailable(f"RabbitMQ is away or refused: {reason}") from error


@dataclass(frozen=True, slots=True)
class RawConnection:
    """An open connection, in the form that the functions of `topology/` take. `tls`: the TLS context of the connection;
    None: none was given."""

    transport: Transport
    url: str = field(repr=False)  # has the password
    tls: SSLContext | None

    @property
    def server_properties(self) -> Mapping[str, Any]:
        """The server properties that RabbitMQ sent when the connection was opened."""
        return self.transport.server_properties

    async def open_channel(self) -> Channel:
        """Opens a channel.

        Raises:
            BrokerUnavailable: RabbitMQ does not answer in time, or the connection was lost.
        """
        return await open_channel(self.transport)


class BrokerConnection:
    """One connection for one purpose. RabbitMQ blocks publishers by connection, so consumers use another connection.

    The nodes of one cluster are tried in turn. While the breaker is open, calls fail at once, and an open connection
    stays open.
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
        """`nodes`: the AMQP URLs of one cluster's nodes. `purpose`: part of the connection's name in RabbitMQ.
        `timeout_ms`: the limit for opening the connection or a channel. `about`: properties of this bridge that
        RabbitMQ shows to operators."""
        self._urls = [node.strip() for node in nodes]
        self._about = {"product": "delaybridge", "connection_name": f"delaybridge {purpose}", "delaybridge": {**about}}
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
        self._crashes = 0  # of former connections

    @property
    def replaced(self) -> int:
        """How many times a new connection took the place of a lost one."""
        return max(0, self.generation - 1)

    @property
    def crashes(self) -> int:
        """How many connections RabbitMQ has closed with an internal error (541), for example over a message that it
        can't convert."""
        return self._crashes + (self._raw is not None and self._raw.transport.has_crashed)

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
        """The AMQP URL of the node to which the last attempt to connect went; before that, of the first node."""
        return self._urls[max(0, self._tries) % len(self._urls)]

    @property
    def is_open(self) -> bool:
        return self._raw is not None and self._raw.transport.is_open

    async def raw_connection(self) -> RawConnection:
        """Returns the open connection; opens one if none is open.

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
                # Counted after the breaker has admitted the call. Otherwise each refused call would skip a
                # node, perhaps always the node that answers.
                self._tries += 1
                url = self.url
                with log_scope.shared():
                    transport = await connect(read_login(url), tls=self._tls, about=self._about)
            try:
                self._check(transport.server_properties)
            except TopologyError as error:
                transport.abort(BrokerUnavailable(str(error)))
                raise BrokerUnfit(str(error)) from error
            self._raw = raw = RawConnection(transport, url, self._tls)
            if self.generation:
                self._reconnects.inc()
            self.generation += 1
            return raw

    async def channel(self, *, confirms: bool = False) -> Channel:
        """Opens a channel. `confirms`: RabbitMQ confirms the publishes on it.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        """
        raw = await self.raw_connection()
        async with self.asking(self._timeout_s):
            return await open_channel(raw.transport, confirms=confirms)

    async def close(self, channel: Channel) -> None:
        """Closes a channel. RabbitMQ requeues its unacknowledged deliveries. Raises no error if RabbitMQ is away or
        does not answer."""
        with suppress(BrokerUnavailable):
            async with translated(self._timeout_s):
                await channel.close()

    async def queue_exists(self, queue: str, limit_s: float) -> bool:
        """Whether RabbitMQ has the queue. `limit_s`: the time limit for RabbitMQ's answer, in seconds.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        """
        try:
            await self.depth(queue, limit_s)
        except QueueMissing:
            return False  # and RabbitMQ has closed the channel
        return True

    async def depth(self, queue: str, limit_s: float) -> int:
        """Returns how many messages are ready in the queue. Messages that consumers hold do not count. `limit_s`: the
        time limit for RabbitMQ's answer, in seconds.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
            QueueMissing: the queue does not exist.
        """
        channel = await self.channel()
        async with translated(limit_s):
            depth = await channel.depth(queue)
            await channel.close()
        return depth

    @asynccontextmanager
    async def asking(self, limit_s: float) -> AsyncIterator[GuardedCall]:
        """A context for one call that the broker has to answer within `limit_s` seconds. Yields a `GuardedCall`, whose
        `timed_out` says afterwards whether the call timed out. Errors of the call become BrokerUnavailable or
        QueueMissing. If the breaker refuses the call, the context raises BreakerOpen.

        Do not nest this context: after a timeout the breaker admits one call at a time.

        If a call times out, its node may be frozen or cut off from the majority. Then the bridge leaves the node, if
        there are other nodes. It stays if the broker only blocks publishers, or if a queue has confirmed a message over
        the connection since the call began. A node that is cut off answers some calls, but no call that needs a queue.
        """
        generation, began_s = self.generation, monotonic()
        async with translated():
            try:
                with guarded(self._breaker, "RabbitMQ", BreakerOpen, limit_s=limit_s) as call:
                    try:
                        async with TimeLimit(limit_s):
                            yield call
                    except TimeoutError:
                        call.conclusive = self.confirmed_s < began_s and not self.is_blocked
                        raise
            except TimeoutError:
                if call.timed_out and self.has_other_nodes:
                    await self.drop(generation)
                raise

    @property
    def next_generation(self) -> int:
        """The number of the connection that the next call uses, as `generation` counts connections."""
        return self.generation + (not self.is_open)

    async def lasts(self, generation: int) -> bool:
        """Whether RabbitMQ still answers over the connection with this number. False: RabbitMQ may have been killed
        since that connection was opened."""
        try:
            await self.ping()
        except BrokerUnavailable:
            return False
        return self.generation == generation

    async def ping(self) -> None:
        """Opens and closes a channel, so that the broker has to answer.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        """
        await self.close(await self.channel())

    @property
    def is_blocked(self) -> bool:
        """Whether the broker blocks publishers now (memory or disk alarm)."""
        return self._raw is not None and self._raw.transport.is_blocked

    def doubt(self) -> None:
        """Tells the breaker that a call was not made, because RabbitMQ would not take it (a memory or disk alarm). This
        sets `Breaker.troubled_s` to now. It does not open the breaker."""
        self._breaker.troubled_s = monotonic()

    async def drop(self, generation: int | None = None) -> None:
        """Closes the connection, and RabbitMQ redelivers its unacknowledged messages.

        `generation`: the number of the connection to close, as `self.generation` counts connections. If a later one has
        been opened since, nothing is closed. None: closes the present connection.
        """
        if generation not in (None, self.generation):
            return
        raw, self._raw = self._raw, None
        if raw is not None:
            self._crashes += raw.transport.has_crashed
            closing = background.begin(_close(raw.transport), "close a connection")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            await asyncio.wait({closing})


async def _close(transport: Transport) -> None:
    # A frozen broker answers no close.
    with suppress(BrokerUnavailable):
        async with translated(_CLOSED_WITHIN_S):
            await transport.close()
    transport.abort(BrokerUnavailable("the bridge closed the connection"))
