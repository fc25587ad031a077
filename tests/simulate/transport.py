"""Is the client's end of a simulated connection, as asyncio's protocols and streams use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from tests.simulate.network import Way


class ClientTransport(asyncio.Transport):
    """Writes into `up`, and gives its protocol what comes out of `down`. `closed`: called when the client closes it."""

    def __init__(self, protocol: asyncio.BaseProtocol, up: Way, down: Way, closed: Callable[[], None]) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self._protocol = protocol
        self._up = up
        self._down = down
        self._closed = closed
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing and data:
            self._up.send(bytes(data))

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._end(None)

    def abort(self) -> None:
        self._end(None)

    def pause_reading(self) -> None:
        self._down.is_paused = True

    def resume_reading(self) -> None:
        self._down.is_paused = False
        self._down.release()

    def is_reading(self) -> bool:
        return not self._down.is_paused

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Does nothing: the network takes all bytes at once."""

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def take(self, data: bytes) -> None:
        """Gives the protocol bytes of the server."""
        if self._is_closing:
            return
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            cast(asyncio.Protocol, self._protocol).data_received(data)
            return
        while data and not self._is_closing:
            room: Any = self._protocol.get_buffer(len(data))
            piece = data[: len(room)]
            room[: len(piece)] = piece
            self._protocol.buffer_updated(len(piece))
            data = data[len(piece) :]

    def take_end(self) -> None:
        """Tells the protocol that the server has closed the connection."""
        if not self._is_closing and not cast(asyncio.Protocol, self._protocol).eof_received():
            self._end(None)

    def reset(self) -> None:
        """Tells the protocol that the connection was cut."""
        self._end(ConnectionResetError("the simulated network has cut the connection"))

    def _end(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, error)
            self._closed()
