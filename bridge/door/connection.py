"""Joins a client's connection with a connection to the broker, and passes bytes in both directions.

The door reads from one side only while the other side takes the bytes. So it holds little more than two buffers for a
client: one for each direction. It passes heartbeats on, so each side notices when the other side stops. It passes
logins on, so RabbitMQ checks them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

import structlog

from bridge.door import methods
from bridge.door.answers import Answers
from bridge.door.brokers import Brokers
from bridge.door.methods import BadFrame
from bridge.door.requests import Requests
from bridge.metrics import door as metrics
from bridge.model import background

log = structlog.get_logger(__name__)

BUFFER_BYTES: Final = 65_536
"""The most unsent bytes for one side. At this size the door stops reading the other side until most are sent."""
LINGER_S: Final = 10.0
"""How many seconds a closed connection may take to send its buffered bytes."""
_LEAVING: Final = methods.close(320, "CONNECTION_FORCED - the door is shutting down")
_DONE: Final = methods.close(200, "the door is shutting down")


class Connection(asyncio.Protocol):
    """The client's side of a joined connection. It owns the broker's side."""

    def __init__(
        self, brokers: Brokers, ingress_of: Callable[[bytes], bytes | None], left: Callable[[Connection], None]
    ) -> None:
        """`ingress_of`: returns the exchange that takes delayed messages of an exchange; None: publishes to that
        exchange stay as they are. `left`: called with this connection when the client has disconnected."""
        self._brokers = brokers
        self._left = left
        self._requests = Requests(ingress_of)
        self._answers = Answers()
        self._client: asyncio.Transport | None = None
        self._server: asyncio.Transport | None = None
        self._early = b""  # what the client sent before the broker answered: one read, as it is not read further
        self._connecting: asyncio.Task[None] | None = None
        self._leaving = False
        self._said_goodbye = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have all methods of `asyncio.Transport`, and are no subclass of it.
        self._client = client = cast(asyncio.Transport, transport)
        client.set_write_buffer_limits(high=BUFFER_BYTES)
        self._connecting = asyncio.create_task(self._connect())
        self._connecting.add_done_callback(self._connected)

    async def _connect(self) -> None:
        try:
            transport = await self._brokers.connect(lambda: _ServerSide(self))
        except OSError as error:
            metrics.REFUSED.labels("broker").inc()
            log.warning("door.broker_away", reason=str(error))
            self.close()
            return
        transport.set_write_buffer_limits(high=BUFFER_BYTES)
        self._server = transport
        if self._client is None or self._client.is_closing():
            transport.abort()
        else:
            early, self._early = self._early, b""
            self.data_received(early)
            self._client.resume_reading()

    def _connected(self, connecting: asyncio.Task[None]) -> None:
        if not connecting.cancelled() and connecting.exception() is not None:
            background.ended("connect a client", connecting)
            self.close()

    def data_received(self, data: bytes) -> None:
        if self._said_goodbye or self._client is None:
            return
        if self._server is None:
            self._early += data
            self._client.pause_reading()
            return
        try:
            passed = self._requests.feed(data)
        except BadFrame as error:
            metrics.REFUSED.labels("frame").inc()
            log.warning("door.bad_frame", client=self._client.get_extra_info("peername"), reason=str(error))
            self.close()
            return
        self._count()
        if passed:
            metrics.SENT.inc(len(passed))
            self._server.write(passed)

    def _count(self) -> None:
        requests = self._requests
        if requests.delayed:
            metrics.DELAYED.inc(requests.delayed)
            requests.delayed = 0
        if requests.made_passive:
            metrics.MADE_PASSIVE.inc(requests.made_passive)
            requests.made_passive = 0

    def answered(self, data: bytes) -> None:
        """Passes bytes from the broker on to the client."""
        if self._client is None or self._said_goodbye:
            return
        self._answers.follow(data)
        metrics.RECEIVED.inc(len(data))
        self._client.write(data)
        if self._leaving:
            self._say_goodbye()

    def pause_writing(self) -> None:
        """Stops reading the broker, because the client does not read."""
        if self._server is not None:
            self._server.pause_reading()

    def resume_writing(self) -> None:
        if self._server is not None:
            self._server.resume_reading()

    def pause_requests(self) -> None:
        """Stops reading the client, because the broker does not read, or the door shuts down."""
        if self._client is not None:
            with suppress(RuntimeError):  # the transport is closing
                self._client.pause_reading()

    def resume_requests(self) -> None:
        """Reads the client again, because the broker reads. Does nothing while the door shuts down."""
        if self._client is not None and not self._leaving:
            self._client.resume_reading()

    def leave(self) -> None:
        """Ends the connection because the door shuts down. Sends the client `connection.close` with the code 320, as
        RabbitMQ does when it shuts down. First waits until the broker has sent a frame, and each frame to the client
        has passed whole."""
        self._leaving = True
        self._say_goodbye()

    def _say_goodbye(self) -> None:
        if self._client is None or self._server is None:
            self.close()
        elif self._answers.is_whole:
            self._client.write(_LEAVING)
            self._client.resume_reading()  # the client answers, and closes
            self._said_goodbye = True
            if self._requests.is_whole:
                self._server.write(_DONE)
            self._close_server()

    def connection_lost(self, error: Exception | None) -> None:
        self._client = None
        self._close_server()
        if self._connecting is not None:
            self._connecting.cancel()
        self._left(self)

    def server_lost(self) -> None:
        """Closes the client's side after the broker closed its side. Bytes that the broker has sent still reach the
        client."""
        if not self._said_goodbye:
            self._server = None
            self.close()

    def close(self) -> None:
        """Closes both sides. The bytes that are buffered for a side are sent first, for `LINGER_S` seconds at most."""
        for transport in (self._client, self._server):
            if transport is not None:
                transport.close()
                asyncio.get_running_loop().call_later(LINGER_S, transport.abort)

    def _close_server(self) -> None:
        server, self._server = self._server, None
        if server is not None and not server.is_closing():
            server.close()
            asyncio.get_running_loop().call_later(LINGER_S, server.abort)


class _ServerSide(asyncio.Protocol):
    """The broker's side of a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def data_received(self, data: bytes) -> None:
        self._connection.answered(data)

    def pause_writing(self) -> None:
        self._connection.pause_requests()

    def resume_writing(self) -> None:
        self._connection.resume_requests()

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.server_lost()
