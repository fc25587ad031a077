"""Serves a simulated broker on a port of this machine, in real time, so that any AMQP client can use it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic, time
from typing import cast

from tests.simulate.rabbitmq import Broker, Connection


class _Ticking:
    """Advances the broker with the clock of this machine."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._started_ms = (time() - monotonic()) * 1_000
        self._timer: asyncio.TimerHandle | None = None

    def tick(self) -> None:
        """Does what is due, and comes back at the next moment."""
        self.broker.advance(self._started_ms + monotonic() * 1_000)
        self.plan()

    def plan(self) -> None:
        """Comes back at the next moment at which something happens."""
        self.stop()
        moment_ms = self.broker.next_moment_ms()
        if moment_ms is not None:
            in_ms = moment_ms - self._started_ms - monotonic() * 1_000
            self._timer = asyncio.get_running_loop().call_later(max(0.0, in_ms / 1_000), self.tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class _Client(asyncio.Protocol):
    """The broker's side of one TCP connection."""

    def __init__(self, ticking: _Ticking) -> None:
        self._ticking = ticking
        self._connection: Connection | None = None
        self._io: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._io = cast(asyncio.Transport, transport)
        self._connection = self._ticking.broker.connect()
        self._connection.wakeup = self._write

    def data_received(self, data: bytes) -> None:
        if self._connection is not None:
            self._ticking.tick()
            self._connection.received(data)
            self._ticking.plan()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._ticking.tick()
            self._connection.lost()
            self._ticking.plan()

    def _write(self) -> None:
        if self._connection is not None and self._io is not None:
            self._io.write(self._connection.output())
            if self._connection.closed:
                self._io.close()


@asynccontextmanager
async def served(broker: Broker) -> AsyncIterator[int]:
    """Serves the broker. Yields the port."""
    ticking = _Ticking(broker)
    ticking.tick()
    server = await asyncio.get_running_loop().create_server(lambda: _Client(ticking), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        ticking.stop()
        server.close()
