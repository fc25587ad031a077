"""Listens for AMQP clients, and limits their number."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from ssl import SSLContext
from typing import Final, cast

import structlog

from bridge.door.brokers import Brokers
from bridge.door.connection import Connection
from bridge.metrics import door as metrics

log = structlog.get_logger(__name__)

_BACKLOG: Final = 2_048


class Door:
    """A proxy for AMQP clients before one RabbitMQ cluster. `ingress_of`: returns the exchange that takes delayed
    messages of an exchange; None: publishes to that exchange stay as they are. `most`: the most clients at the same
    time; the door closes further connections at once. `tls`: the TLS context for clients; None: no TLS."""

    def __init__(
        self, brokers: Brokers, *, ingress_of: Callable[[bytes], bytes | None], most: int, tls: SSLContext | None
    ) -> None:
        self._brokers = brokers
        self._ingress_of = ingress_of
        self._most = most
        self._tls = tls
        self._open: set[Connection] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._servers: list[asyncio.Server] = []
        self._is_full = False

    @property
    def is_ready(self) -> bool:
        """Whether the door accepts clients."""
        return bool(self._servers)

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Begins to accept clients on the listening sockets."""
        loop = asyncio.get_running_loop()
        self._servers = [
            await loop.create_server(self._accepted, sock=listening, ssl=self._tls, backlog=_BACKLOG)
            for listening in sockets
        ]

    async def stop(self, *, drain_s: float, grace_s: float) -> None:
        """Accepts no more clients, and reads no more requests of connected clients.

        Closes their connections after `drain_s` seconds; until then the broker's confirms still reach them. Cuts
        connections that are still open `grace_s` seconds later.
        """
        for server in self._servers:
            server.close()
        self._servers = []
        for connection in self._open:
            connection.pause_requests()
        if self._open:
            await asyncio.sleep(drain_s)
        for connection in tuple(self._open):
            connection.leave()
        try:
            async with asyncio.timeout(grace_s):
                await self._empty.wait()
        except TimeoutError:
            log.warning("door.cut", connections=len(self._open))
            for connection in tuple(self._open):
                connection.close()

    def _accepted(self) -> asyncio.Protocol:
        if len(self._open) >= self._most:
            metrics.REFUSED.labels("full").inc()
            if not self._is_full:
                log.warning("door.full", connections=self._most)
                self._is_full = True
            return _Refused()
        connection = Connection(self._brokers, self._ingress_of, self._left)
        self._open.add(connection)
        self._empty.clear()
        metrics.CONNECTIONS.set(len(self._open))
        return connection

    def _left(self, connection: Connection) -> None:
        self._open.discard(connection)
        metrics.CONNECTIONS.set(len(self._open))
        self._is_full = False
        if not self._open:
            self._empty.set()


class _Refused(asyncio.Protocol):
    """Closes a client's connection at once, because the door has as many clients as it may have."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()  # uvloop's transport is no subclass
