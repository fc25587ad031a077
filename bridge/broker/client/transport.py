"""Reads and writes the frames of one connection to RabbitMQ.

Frames are read as they arrive, without a task or a future for each. A delivery takes 10 us. aiormq makes a task for
each delivery, which takes 100 us.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol, cast

from pamqp import commands, frame
from pamqp.base import Frame
from pamqp.exceptions import PAMQPException

from bridge.broker.client import frames, methods
from bridge.broker.client.methods import Closed
from bridge.broker.client.protocol import CONNECTION_CLOSE, END, FRAME, KINDS, METHOD, OVERHEAD, PROTOCOL_HEADER
from bridge.model.errors import BrokerUnavailable
from bridge.model.tls import tls_failure

_CHUNK: Final = 65_536  # bytes per read: some 100 deliveries
_LARGEST: Final = 131_072  # bytes of a frame, if RabbitMQ sets no limit
# Bytes of a frame that arrives. RabbitMQ never splits a header frame. With the deaths that it adds, headers may be
# larger than any frame that a client may send.
_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_CHANNELS: Final = 65_535
_SILENT_BEATS: Final = 3
_INTERNAL_ERROR: Final = 541
_STOPPED_S: Final = 1.0  # a timer that comes so much too late shows that this process was stopped, not the server


_clock = asyncio.get_running_loop  # which has the time, and timers


class _NoFrame(Exception):
    """The bytes that the server sent are no frame of AMQP 0-9-1."""


class Listener(Protocol):
    """A channel, for which a transport reads frames."""

    def received(self, kind: int, data: bytes, start: int, end: int) -> None:
        """Takes a frame of the channel. `kind`: the frame's kind, such as `protocol.METHOD`. The frame's payload is
        `data[start:end]`."""
        ...

    def lost(self, error: BrokerUnavailable) -> None:
        """Ends the channel: no frames come any more. `error`: why the connection ended."""
        ...


class Transport(asyncio.BufferedProtocol):
    """A connection to RabbitMQ over AMQP 0-9-1. Each channel has a number, from 1 on. Methods of the connection itself
    have the number 0.

    `ended`: a future, done when the connection is closed or lost; `error` then says why. `ended_by`: the reason in
    RabbitMQ's Close; None: RabbitMQ sent no Close.
    """

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.error: BrokerUnavailable | None = None
        self.ended_by: Closed | None = None
        self.largest_frame = _LARGEST
        self.server_properties: dict[str, object] = {}
        self._closing = False
        self._most_channels = _MOST_CHANNELS
        self._io: asyncio.Transport | None = None
        self._buffer = memoryview(bytearray(_CHUNK))  # asyncio also reads into slices of it
        self._data = b""
        self._channels: dict[int, Listener] = {}
        self._fresh = 0  # the highest number that was ever in use
        self._free: deque[int] = deque()
        self._methods: asyncio.Queue[Frame] = asyncio.Queue()  # of the connection; a few in its whole life
        self._unblocked = asyncio.Event()
        self._unblocked.set()
        self._heard_s = 0.0
        self._beat: asyncio.TimerHandle | None = None

    # Writing

    @property
    def is_open(self) -> bool:
        """Whether frames can be written."""
        return self.error is None and not self._closing

    @property
    def has_crashed(self) -> bool:
        """Whether RabbitMQ has closed the connection with an internal error (541)."""
        return self.ended_by is not None and self.ended_by.code == _INTERNAL_ERROR

    @property
    def is_blocked(self) -> bool:
        """Whether RabbitMQ blocks publishers (memory or disk alarm)."""
        return not self._unblocked.is_set()

    async def until_unblocked(self) -> None:
        """Waits while RabbitMQ blocks publishers.

        Raises:
            BrokerUnavailable: the connection was lost.
        """
        await self._unblocked.wait()
        if self.error is not None:
            raise BrokerUnavailable(str(self.error))

    def write(self, payload: bytes) -> None:
        """Writes frames to RabbitMQ. `payload`: the bytes of one or more whole frames. They wait in memory for the
        socket, so callers must limit their unconfirmed messages.

        Raises:
            BrokerUnavailable: the connection is lost or being closed, and nothing was written.
        """
        if not self.is_open:
            raise BrokerUnavailable(str(self.error or "the bridge closes the connection"))
        cast(asyncio.Transport, self._io).write(payload)

    @property
    def awaits_cancel_ok(self) -> bool:
        """Whether this RabbitMQ waits for Cancel-Ok when it cancels a consumer, and keeps the consumer until then (from
        4.3.7 on)."""
        capabilities = self.server_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get("accept_consumer_cancel_ok") is True

    def call(self, method: Frame) -> None:
        """Writes a method of the connection itself, on channel 0."""
        self.write(frames.method(0, method))

    async def answer(self) -> Frame:
        """Returns the next method of the connection that RabbitMQ sends.

        Raises:
            BrokerUnavailable: the connection was lost.
        """
        next_method = asyncio.ensure_future(self._methods.get())
        try:
            await asyncio.wait((next_method, self.ended), return_when=asyncio.FIRST_COMPLETED)
            if next_method.done():
                return next_method.result()
        finally:
            next_method.cancel()
        raise BrokerUnavailable(str(self.error))

    # Channels

    def limit(self, *, largest_frame: int, channels: int) -> None:
        """Sets the limits that RabbitMQ asks for. `largest_frame`: in bytes; 0: RabbitMQ sets no limit, so the bridge's
        limit of 128 KiB holds. `channels`: the most channels; 0: RabbitMQ sets no limit, so the protocol's limit of
        65,535 holds."""
        self.largest_frame = largest_frame or _LARGEST
        self._most_channels = channels or _MOST_CHANNELS

    def number(self, channel: Listener) -> int:
        """Gives the channel a number, and returns it. The channel gets its frames under this number until `release`.

        Raises:
            BrokerUnavailable: all numbers are in use.
        """
        if self._free:
            number = self._free.popleft()
        elif self._fresh < self._most_channels:
            number = self._fresh = self._fresh + 1
        else:
            raise BrokerUnavailable(f"all {self._most_channels} channels of the connection are in use")
        self._channels[number] = channel
        return number

    def release(self, number: int) -> None:
        """Frees the number of a channel that is closed on both sides."""
        if self._channels.pop(number, None) is not None:
            self._free.append(number)

    # Life

    def keep_alive(self, heartbeat_s: int) -> None:
        """Sends heartbeats from now on. Ends the connection if RabbitMQ is silent for about three times `heartbeat_s`
        seconds. 0: sends no heartbeats, and never ends the connection for silence."""
        self._heard_s = _clock().time()
        if heartbeat_s:
            self._beat_later(heartbeat_s)

    def _beat_later(self, heartbeat_s: int) -> None:
        due_s = _clock().time() + heartbeat_s / 2
        self._beat = _clock().call_at(due_s, self._beat_now, heartbeat_s, due_s)

    def _beat_now(self, heartbeat_s: int, due_s: float) -> None:
        if not self.is_open:
            return
        now_s = _clock().time()
        if now_s - due_s < _STOPPED_S and now_s - self._heard_s > _SILENT_BEATS * (heartbeat_s + 1):
            self.abort(BrokerUnavailable(f"RabbitMQ was silent for {now_s - self._heard_s:.0f} s"))
            return
        self.write(frames.HEARTBEAT)
        self._beat_later(heartbeat_s)

    async def close(self) -> None:
        """Closes the connection, and waits until RabbitMQ has closed its side.

        Raises:
            BrokerUnavailable: the connection was lost meanwhile.
        """
        self.call(commands.Connection.Close(reply_code=200, reply_text="", class_id=0, method_id=0))
        self._closing = True
        while not isinstance(await self.answer(), commands.Connection.CloseOk):
            pass

    def abort(self, error: BrokerUnavailable) -> None:
        """Ends the connection at once."""
        self._end(error)
        if self._io is not None:
            self._io.abort()

    def _end(self, error: BrokerUnavailable) -> None:
        if self.error is not None:
            return
        self.error = error
        if self._beat is not None:
            self._beat.cancel()
        self._unblocked.set()
        self.ended.set_result(None)
        channels, self._channels = [*self._channels.values()], {}
        for channel in channels:
            channel.lost(error)

    # Reading

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sends the protocol header, with which an AMQP client begins."""
        self._io = cast(asyncio.Transport, transport)  # uvloop's transport is no subclass
        self._io.write(PROTOCOL_HEADER)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the connection, because the socket is closed. `exc`: why; None: without an error."""
        why = f": {tls_failure(exc) or exc}" if exc else ""
        self._end(BrokerUnavailable(f"the connection to RabbitMQ was lost{why}"))

    def eof_received(self) -> None:
        """Ends the connection, because RabbitMQ has closed its side, even if some bytes are not written yet."""
        self._end(BrokerUnavailable("RabbitMQ cut the connection"))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Returns the memory into which the next bytes are read."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Reads all frames that have arrived completely. `nbytes`: how many new bytes are in the buffer."""
        self._heard_s = _clock().time()
        chunk = bytes(self._buffer[:nbytes])
        try:
            self._data = self._rest_of(self._data + chunk if self._data else chunk)
        except (_NoFrame, PAMQPException) as error:
            self.abort(BrokerUnavailable(f"the server sent what is no AMQP 0-9-1: {error}"))

    def _rest_of(self, data: bytes) -> bytes:
        """Reads all complete frames. Returns the beginning of the next frame."""
        at = 0
        while len(data) - at >= OVERHEAD and self.error is None:
            kind, number, size = FRAME.unpack_from(data, at)
            start = at + FRAME.size
            end = start + size
            if kind not in KINDS or size > _MOST_BYTES:
                raise _NoFrame(repr(data[at : at + 16]))
            if end >= len(data):
                break
            if data[end] != END:
                raise _NoFrame("a frame without its end")
            at = end + 1
            if number:
                if (channel := self._channels.get(number)) is not None:
                    channel.received(kind, data, start, end)
            elif kind == METHOD:
                self._method(data, start, at)
        return data[at:]

    def _method(self, data: bytes, start: int, end: int) -> None:
        method, at = methods.number(data, start)
        if method == CONNECTION_CLOSE:
            self._closed(methods.close(data, at))
        else:
            self._received(frame.unmarshal(data[start - FRAME.size : end])[2])

    def _closed(self, why: Closed) -> None:
        self.ended_by = why
        io = cast(asyncio.Transport, self._io)
        io.write(frames.method(0, commands.Connection.CloseOk()))
        self._end(BrokerUnavailable(f"RabbitMQ closed the connection: {why.text}"))
        io.close()

    def _received(self, method: object) -> None:
        match method:
            case commands.Connection.Blocked():
                self._unblocked.clear()
            case commands.Connection.Unblocked():
                self._unblocked.set()
            case Frame():
                self._methods.put_nowait(method)
