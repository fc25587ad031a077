"""A connection to RabbitMQ that is opened when it is needed, and anew after it was lost.

Connections and channels are plain ones, not aio-pika's robust kind: that one would declare again what an operator
deleted, and would let a request wait for a broker that is away. Here a request fails within its time limit, and the
next one connects.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from ssl import SSLContext
from typing import Any, cast

import aio_pika
from aiormq import Channel
from aiormq.exceptions import AMQPError, ChannelInvalidStateError, ChannelNotFoundEntity
from yarl import URL

from bridge.broker.client.fast_reader import Connection, FastReader
from bridge.model.breaker import Breaker, GuardedCall, guarded
from bridge.model.errors import BrokerUnavailable, BrokerUnfit, QueueMissing
from bridge.settings.tls import tls_failure
from topology.errors import TopologyError

_HEARTBEAT_S = 5  # a silent server is given up after some 20 s, a silent client after 10; the default is 60
_CLOSED_WITHIN_S = 0.2

Check = Callable[[dict[str, Any]], None]
"""Looks at a broker's server properties and raises where the promises can't be kept on it."""


class Refused(BrokerUnavailable):
    """The breaker refused the call, so it was not made."""


@asynccontextmanager
async def translated(limit_s: float | None = None) -> AsyncIterator[None]:
    """Turns what aio-pika and aiormq raise, and a time limit passed, into `BrokerUnavailable`; a queue that does not
    stand into `QueueMissing`."""
    try:
        async with asyncio.timeout(limit_s):
            yield
    except TimeoutError as error:
        raise BrokerUnavailable("RabbitMQ did not answer in time, or blocks publishers") from error
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is None or task.cancelling():
            raise
        # Nobody has cancelled this task: aiormq cancels what still waits for a connection that is lost.
        raise BrokerUnavailable("the connection to RabbitMQ was lost") from None
    except ChannelNotFoundEntity as error:
        raise QueueMissing(f"RabbitMQ has it no more: {error}") from error
    # A lost connection shows as ChannelInvalidStateError, which is a RuntimeError and no AMQPError.
    # And one that ends before the broker has said a word as the end of an iteration.
    except (AMQPError, ChannelInvalidStateError, ConnectionError, OSError, StopAsyncIteration) as error:
        reason = tls_failure(error) or f"{type(error).__name__} {error}"
        raise BrokerUnavailable(f"RabbitMQ is away or refused: {reason}") from error
    except Exception as error:
        # What aiormq fails a future with whose connection was lost for no reason that it knows.
        if type(error) is not Exception:
            raise
        raise BrokerUnavailable("the connection to RabbitMQ was lost") from error


class BrokerConnection:
    """One connection for one purpose: publishing and consuming are kept apart, since the broker blocks by connection.

    `nodes` are the addresses of one cluster: they are tried in turn. While the breaker refuses, calls fail at once;
    what is open stays open.
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
    ) -> None:
        self._urls = [_with_heartbeat(part.strip()) for part in nodes]
        self._purpose = purpose
        self._timeout_s = timeout_ms / 1_000
        self._check = check
        self._breaker = breaker
        self._tls = tls
        self._connection: Connection | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._opening = asyncio.Lock()
        self._tries = -1  # the next node's turn comes with the next try
        self.generation = 0  # counts the connections: what was declared on an earlier one is declared again

    @property
    def several(self) -> bool:
        """Whether there is another node to go to."""
        return len(self._urls) > 1

    @property
    def open(self) -> bool:
        # aio-pika holds a connection that was lost for open until it is closed from here.
        transport = None if self._connection is None else self._connection.transport
        return transport is not None and not transport.connection.is_closed

    async def connection(self) -> Connection:
        """The open connection.

        Raises:
            BrokerUnavailable: no node could be reached in time.
            BrokerUnfit: the promises can't be kept on the one that was.
        """
        if self._connection is not None and self.open:
            return self._connection
        async with self._opening:
            if self._connection is not None and self.open:
                return self._connection
            await self.drop()
            async with self.asking(self._timeout_s):
                # Not for a call that is refused: it would take the turn of the node that answers, perhaps each time.
                self._tries += 1
                connection = await aio_pika.connect(
                    self._urls[self._tries % len(self._urls)],
                    timeout=self._timeout_s,
                    client_properties={"connection_name": f"delaybridge {self._purpose}"},
                    ssl_context=self._tls,
                    connection_class=Connection,
                )
            try:
                self._check(_server_properties(connection))
            except TopologyError as error:
                await connection.close()
                raise BrokerUnfit(str(error)) from error
            self._connection = connection
            self.generation += 1
            return connection

    async def channel(self, *, confirms: bool = False) -> Channel:
        """A new channel, of the low-level kind that bursts are written to.

        Raises:
            BrokerUnavailable
        """
        connection = await self.connection()
        async with self.asking(self._timeout_s):
            channel = connection.channel(publisher_confirms=confirms, on_return_raises=confirms)
            try:
                await channel.initialize()
                return cast(Channel, await channel.get_underlay_channel())
            except RuntimeError as error:
                if self.open:
                    raise
                # All that aiormq says of a connection that was lost a moment ago.
                raise BrokerUnavailable(f"RabbitMQ is away: {error}") from error

    async def close(self, channel: Channel) -> None:
        """Closes a channel; what it holds is back in its queues."""
        with suppress(BrokerUnavailable):
            async with translated(self._timeout_s):
                await channel.close()

    def intake(self, channel: Channel) -> FastReader:
        """What takes the deliveries of a channel.

        Raises:
            BrokerUnavailable: its connection is gone.
        """
        connection = self._connection
        transport = None if connection is None else connection.transport
        if connection is None or transport is None or transport.connection is not channel.connection:
            raise BrokerUnavailable("the connection to RabbitMQ was lost")
        return connection.intake

    @asynccontextmanager
    async def asking(self, limit_s: float) -> AsyncIterator[GuardedCall]:
        """`translated`, for one call of the broker that it has to answer in time, by the breaker's leave. Not to be
        nested: there is leave for one call.

        A broker that blocks publishers is not away. A node that does not answer is left where there are others: it may
        be frozen, or cut off from the majority, and then it answers some calls and never those that need a queue.
        """
        generation = self.generation
        async with translated():
            with guarded(self._breaker, "RabbitMQ", Refused) as call:
                try:
                    async with asyncio.timeout(limit_s):
                        yield call
                except TimeoutError:
                    call.conclusive = not await self.blocked()
                    if call.conclusive and self.several:
                        await self.drop(generation)
                    raise

    async def ask(self) -> None:
        """Has the broker answer.

        Raises:
            BrokerUnavailable
        """
        channel = await self.channel()
        async with translated(self._timeout_s):
            await channel.close()

    async def blocked(self) -> bool:
        """Whether the broker lets no publisher through now (memory or disk alarm)."""
        if self._connection is None or self._connection.transport is None:
            return False
        try:
            async with asyncio.timeout(0):
                await self._connection.transport.connection.ready()
        except TimeoutError:
            return True
        return False

    async def drop(self, generation: int | None = None) -> None:
        """Closes the connection; what was unacknowledged on it comes again. A later one than `generation` stays."""
        if generation not in (None, self.generation):
            return
        connection, self._connection = self._connection, None
        if connection is not None:
            # A frozen broker answers no close; the socket goes all the same. In a task of its own, since a close that
            # does not end, whatever the time limit, would hold up everybody who wants a new connection.
            closing = asyncio.create_task(_closed(connection))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            await asyncio.wait({closing}, timeout=2 * _CLOSED_WITHIN_S)


async def _closed(connection: Connection) -> None:
    with suppress(BrokerUnavailable):
        async with translated(_CLOSED_WITHIN_S):
            await connection.close()


def _server_properties(connection: Connection) -> dict[str, Any]:
    transport = connection.transport
    return dict(transport.connection.server_properties) if transport is not None else {}


def _with_heartbeat(url: str) -> str:
    address = URL(url)
    return url if "heartbeat" in address.query else str(address.update_query(heartbeat=_HEARTBEAT_S))
