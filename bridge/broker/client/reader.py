"""Reads a connection's bytes before aiormq does, and takes messages and confirms out of them.

aiormq awaits each frame in three parts, hands it to a task of its channel, and makes a task for each delivery. That
takes 100 us a delivery, of which pamqp takes 40. `Reader` reads all frames that have arrived at once. It takes out
deliveries, answers to gets, and confirms. It passes all other frames on to aiormq unchanged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, MutableMapping
from functools import partial
from struct import Struct
from typing import Final

from aiormq import Channel
from pamqp import commands
from pamqp.commands import Basic

from bridge.broker.client.confirms import Confirms
from bridge.broker.client.decode_properties import decode_properties
from bridge.broker.client.delivery import Delivery
from bridge.broker.client.gets import Gets

Received = Callable[[Delivery], None]
_Came = tuple[int, str, str, bool]
"""Delivery tag, exchange and routing key of a delivery, and whether it is a redelivery."""

_CHUNK = 65_536  # bytes per read: some 100 deliveries, after which other tasks run
_HEARTBEAT_EVERY_S = 1.0

_FRAME: Final = Struct(">BHI")  # kind, channel, size of the payload between this and the end
_U32: Final = Struct(">I")
_U64: Final = Struct(">Q")
_TAG_AND_MULTIPLE: Final = Struct(">QB")
_OVERHEAD: Final = _FRAME.size + 1
_END: Final = 0xCE
_METHOD, _HEADER, _BODY = 1, 2, 3
_DELIVER, _RETURN = Basic.Deliver.index, Basic.Return.index
_GET_OK, _GET_EMPTY = Basic.GetOk.index, Basic.GetEmpty.index
_ACK, _NACK = Basic.Ack.index, Basic.Nack.index
_CLOSE, _CLOSE_OK = commands.Channel.Close.index, commands.Channel.CloseOk.index
_HEARTBEAT: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"
_REFUSAL: Final = b"A"  # a server that speaks another protocol sends no frame, but its own protocol header


class _Incomplete:
    """A message whose frames have not all arrived. `done` gets the payload of its header frame, and its body."""

    __slots__ = ("body", "content", "done", "missing_bytes")

    def __init__(self, done: Callable[[bytes, bytes], None]) -> None:
        self.done = done
        self.content = b""
        self.body: list[bytes] = []
        self.missing_bytes = 0  # of the body

    def add(self, kind: int, payload: bytes) -> bool:
        """Adds a frame. Returns whether the message is complete."""
        if kind == _HEADER:
            self.content = payload
            (self.missing_bytes,) = _U64.unpack_from(payload, 4)
        else:
            self.body.append(payload)
            self.missing_bytes -= len(payload)
        return self.missing_bytes <= 0

    def end(self) -> None:
        self.done(self.content, self.body[0] if len(self.body) == 1 else b"".join(self.body))


class Reader:
    """The stream that aiormq reads: it has the methods of `StreamReader` that aiormq uses. It keeps back the frames
    that it takes out."""

    def __init__(
        self,
        stream: asyncio.StreamReader,
        *,
        consumers: Mapping[bytes, tuple[Channel, Received]],
        gets: MutableMapping[int, Gets],
        confirms: MutableMapping[int, Confirms],
    ) -> None:
        """`consumers`: by consumer tag. `gets`, `confirms`: by channel number; the reader removes those of closed
        channels."""
        self._stream = stream
        self._consumers = consumers
        self._gets = gets
        self._confirms = confirms
        self._data = b""
        self._at = 0
        self._incomplete: dict[int, _Incomplete] = {}  # by channel number
        self._passed_on = b""  # the frame that aiormq is reading
        self._passed_on_at = 0  # in that frame
        self._took_out = False  # since the last frame that was passed on
        self._heartbeat_s = 0.0

    def at_eof(self) -> bool:
        return self._stream.at_eof() and self._at == len(self._data) and self._passed_on_at == len(self._passed_on)

    async def read(self) -> bytes:
        """Returns all remaining bytes, for a server that does not send frames."""
        rest = self._passed_on[self._passed_on_at :] + self._data[self._at :] + await self._stream.read()
        self._passed_on = self._data = b""
        self._passed_on_at = self._at = 0
        return rest

    async def readexactly(self, size: int) -> bytes:
        """Returns the next `size` bytes for aiormq. All of them belong to one frame, which aiormq reads in parts."""
        if self._passed_on_at == len(self._passed_on):
            self._passed_on = await self._next_frame()
            self._passed_on_at = 0
        start = self._passed_on_at
        self._passed_on_at = start + size
        return self._passed_on[start : start + size]

    async def _next_frame(self) -> bytes:
        """Reads until there is a frame for aiormq, and returns that frame."""
        while True:
            frame = self._next_of_data()
            if frame is not None:
                self._took_out = False
                return frame
            if self._took_out:
                now_s = asyncio.get_running_loop().time()
                if now_s - self._heartbeat_s >= _HEARTBEAT_EVERY_S:
                    # aiormq closes a connection on which it sees nothing arrive.
                    self._heartbeat_s, self._took_out = now_s, False
                    return _HEARTBEAT
                await asyncio.sleep(0)
            chunk = await self._stream.read(_CHUNK)
            if not chunk:
                raise asyncio.IncompleteReadError(self._data[self._at :], None)
            self._data = self._data[self._at :] + chunk
            self._at = 0

    def _next_of_data(self) -> bytes | None:
        """Takes out frames until it meets one for aiormq, and returns that frame. None: more bytes have to be read
        first."""
        data, incomplete = self._data, self._incomplete
        if data.startswith(_REFUSAL, self._at):
            self._at, frame = len(data), data[self._at :]
            return frame
        while len(data) - self._at >= _OVERHEAD:
            at = self._at
            kind, number, size = _FRAME.unpack_from(data, at)
            end = at + _OVERHEAD + size
            if end > len(data):
                break
            self._at = end
            start = at + _FRAME.size
            if data[end - 1] != _END:
                return data[at:end]
            if kind == _METHOD:
                incomplete.pop(number, None)
                if not self._method(number, data, start):
                    return data[at:end]
            elif number in incomplete and kind in (_HEADER, _BODY):
                if incomplete[number].add(kind, data[start : end - 1]):
                    incomplete.pop(number).end()
            else:
                return data[at:end]
        return None

    def _method(self, number: int, data: bytes, at: int) -> bool:
        """Handles a method frame. Returns False if the frame has to be passed on to aiormq. `number`: the channel's
        number. `at`: the offset of the frame's payload in `data`."""
        (index,) = _U32.unpack_from(data, at)
        at += _U32.size
        if index == _DELIVER:
            return self._deliver(number, data, at)
        if index in (_GET_OK, _GET_EMPTY):
            return self._got(number, data, at, empty=index == _GET_EMPTY)
        confirms = self._confirms.get(number)
        if confirms is None or index not in (_ACK, _NACK, _RETURN):
            if index in (_CLOSE, _CLOSE_OK):
                # These objects keep the whole channel in memory, and perhaps no later channel replaces them.
                self._gets.pop(number, None)
                self._confirms.pop(number, None)
            return False
        if index == _RETURN:
            self._return(confirms, number, data, at)
            return True
        tag, bits = _TAG_AND_MULTIPLE.unpack_from(data, at)
        note = confirms.confirmed if index == _ACK else confirms.refused
        note(tag, multiple=bool(bits & 1))
        self._took_out = True
        return True

    def _deliver(self, number: int, data: bytes, at: int) -> bool:
        end = at + 1 + data[at]
        consumer = data[at + 1 : end]
        if consumer not in self._consumers:
            return False
        (tag,) = _U64.unpack_from(data, end)
        flags = end + _U64.size
        exchange, key, _ = _addresses(data, flags)
        came = (tag, exchange, key, bool(data[flags]))
        self._incomplete[number] = _Incomplete(partial(self._delivered, consumer, came))
        return True

    def _got(self, number: int, data: bytes, at: int, *, empty: bool) -> bool:
        if (gets := self._gets.get(number)) is None:
            return False
        self._took_out = True
        if empty:
            gets.answered(None, 0)
            return True
        (tag,) = _U64.unpack_from(data, at)
        _, key, end = _addresses(data, at + _U64.size)
        (behind,) = _U32.unpack_from(data, end)

        def complete(content: bytes, body: bytes) -> None:
            gets.answered(Delivery(gets.channel, tag, key, decode_properties(content), body), behind)

        self._incomplete[number] = _Incomplete(complete)
        return True

    def _return(self, confirms: Confirms, number: int, data: bytes, at: int) -> None:
        at += 2  # the code
        reason = data[at + 1 : at + 1 + data[at]].decode(errors="replace")

        def returned(content: bytes, _: bytes) -> None:
            confirms.returned(decode_properties(content).message_id, reason)

        self._incomplete[number] = _Incomplete(returned)

    def _delivered(self, consumer: bytes, came: _Came, content: bytes, body: bytes) -> None:
        self._took_out = True
        if consumer not in self._consumers:
            return
        channel, received = self._consumers[consumer]
        tag, exchange, key, redelivered = came
        try:
            received(Delivery(channel, tag, key, decode_properties(content), body, None, exchange, redelivered))
        except Exception as error:  # noqa: BLE001 - it would end the connection, and with it all other consumers
            asyncio.get_running_loop().call_exception_handler(
                {"message": "A delivery's consumer failed", "exception": error}
            )


def _addresses(data: bytes, at: int) -> tuple[str, str, int]:
    """Returns a message's exchange, its routing key, and the offset behind them. `at`: the offset of the flags, which
    follow the delivery tag."""
    at += 1
    key_at = at + 1 + data[at]
    end = key_at + 1 + data[key_at]
    exchange = data[at + 1 : key_at].decode(errors="replace")
    return exchange, data[key_at + 1 : end].decode(errors="replace"), end
