"""Consumes a queue over AMQP with so little overhead that the benchmark measures the server.

A client library parses every header of every delivery. This consumer needs only the message's id and its
`x-delay-due`. It acknowledges everything it has read with one multiple-ack.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote, urlsplit

from pamqp import base, commands, frame, header
from pamqp.common import FieldValue

from benchmarks.errors import BenchError

Received = Callable[[str, int], None]
"""Called for each delivery with its id and its due moment in Unix ms."""

_CHANNEL: Final = 1
_METHOD, _HEADER, _BODY = 1, 2, 3
_DELIVER: Final = bytes((0, 60, 0, 60))
_DUE: Final = b"\x0bx-delay-due"
_FRAME_MAX: Final = 131_072
_HANDSHAKE_S: Final = 30.0


class Deliveries(asyncio.Protocol):
    """One connection with one consumer. `prefetch` 0: it does not acknowledge (`no_ack`)."""

    def __init__(self, received: Received, prefetch: int = 0) -> None:
        self.error: BaseException | None = None
        self._received = received
        self._acks = prefetch > 0
        self._prefetch = prefetch
        self._buffer = bytearray()
        self._answers: asyncio.Queue[frame.FrameTypes | BaseException] = asyncio.Queue()
        self._consuming = False
        self._tag = self._acked = 0
        self._properties = b""
        self._left = 0  # bytes of the body that have not come yet
        self._transport: asyncio.Transport

    async def consume(self, url: str, queue: str) -> None:
        """Connects and begins to consume.

        Raises:
            BenchError: the broker refuses.
        """
        parts = urlsplit(url)
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, parts.hostname or "127.0.0.1", parts.port or 5672)
        self._transport.write(b"AMQP\x00\x00\x09\x01")
        await self._next()
        credentials = f"\0{unquote(parts.username or 'guest')}\0{unquote(parts.password or 'guest')}"
        properties: dict[str, FieldValue] = {}
        await self._ask(commands.Connection.StartOk(properties, "PLAIN", credentials, "en_US"), 0)
        # Loopback needs no heartbeat.
        self._write(commands.Connection.TuneOk(8, _FRAME_MAX, 0), 0)
        await self._ask(commands.Connection.Open(unquote(parts.path[1:]) or "/"), 0)
        await self._ask(commands.Channel.Open())
        await self._ask(commands.Basic.Qos(0, self._prefetch, False))
        await self._ask(commands.Basic.Consume(0, queue, "bench", False, not self._acks))

    def close(self) -> None:
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or ConnectionResetError("the broker closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        at = 0
        while (end := self._end(at)) > 0:
            if self._consuming:
                self._read(bytes(self._buffer[at:end]))
            else:
                self._answered(bytes(self._buffer[at:end]))
            at = end
        del self._buffer[:at]
        if self._acks and self._tag > self._acked and not self._left and not self._properties:
            self._acked = self._tag
            self._write(commands.Basic.Ack(self._tag, True))

    def _end(self, at: int) -> int:
        """Returns the end of the frame that begins at `at`; 0: it is not complete yet."""
        if len(self._buffer) - at < 8:
            return 0
        end = at + 8 + int.from_bytes(self._buffer[at + 3 : at + 7], "big")
        return end if end <= len(self._buffer) else 0

    def _answered(self, data: bytes) -> None:
        _, _, answer = frame.unmarshal(data)
        self._answers.put_nowait(answer)
        # Deliveries begin after ConsumeOk.
        self._consuming = isinstance(answer, commands.Basic.ConsumeOk)

    def _read(self, data: bytes) -> None:
        kind = data[0]
        if kind == _METHOD:
            if data[7:11] == _DELIVER:
                at = 12 + data[11]  # behind the consumer's tag
                self._tag = int.from_bytes(data[at : at + 8], "big")
            else:
                self._fail(BenchError(f"the broker ended the consumer: {frame.unmarshal(data)[2]}"))
        elif kind == _HEADER:
            self._left = int.from_bytes(data[11:19], "big")
            self._properties = data[19:-1]
            self._whole()
        elif kind == _BODY:
            self._left -= len(data) - 8
            self._whole()

    def _whole(self) -> None:
        if self._left == 0:
            properties, self._properties = self._properties, b""
            self._received(*id_and_due(properties))

    async def _ask(self, method: base.Frame, channel: int = _CHANNEL) -> None:
        self._write(method, channel)
        await self._next()

    async def _next(self) -> None:
        async with asyncio.timeout(_HANDSHAKE_S):
            answer = await self._answers.get()
        if isinstance(answer, BaseException):
            raise BenchError(f"the consumer could not start: {answer}") from answer
        if isinstance(answer, commands.Connection.Close | commands.Channel.Close):
            raise BenchError(f"the broker refused the consumer: {answer.reply_text}")

    def _write(self, method: base.Frame, channel: int = _CHANNEL) -> None:
        self._transport.write(frame.marshal(method, channel))

    def _fail(self, error: BaseException) -> None:
        self.error = self.error or error
        self._answers.put_nowait(error)


def id_and_due(properties: bytes) -> tuple[str, int]:
    """Returns the message's id and its due moment in Unix ms, from the flags and properties of a header frame.

    Raises:
        BenchError: one of them is missing.
    """
    flags = int.from_bytes(properties[:2], "big")
    at = 2
    due_ms = None
    for bit in (15, 14):  # content type and encoding
        if flags >> bit & 1:
            at += 1 + properties[at]
    if flags >> 13 & 1:
        end = at + 4 + int.from_bytes(properties[at : at + 4], "big")
        found = properties.find(_DUE, at, end)
        if found >= 0 and properties[found + len(_DUE)] in b"lLT":
            value_at = found + len(_DUE) + 1
            due_ms = int.from_bytes(properties[value_at : value_at + 8], "big")
        at = end
    at += (flags >> 12 & 1) + (flags >> 11 & 1)  # delivery mode, priority
    for bit in (10, 9, 8):  # correlation id, reply to, expiration
        if flags >> bit & 1:
            at += 1 + properties[at]
    if due_ms is None or not flags >> 7 & 1:
        whole = header.ContentHeader()
        whole.unmarshal(bytes(12) + properties)
        raise BenchError(f"a delivery without id or x-delay-due: {dict(whole.properties)}")
    return properties[at + 1 : at + 1 + properties[at]].decode(), due_ms
