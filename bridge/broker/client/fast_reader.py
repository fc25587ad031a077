"""Deliveries and confirms on their short way: from the socket to who takes them, past aiormq.

aiormq awaits each frame in three parts, hands it to a task of its channel, and makes a task of each delivery: 100 us,
of which 40 are pamqp's. Here frames are read as many as came at once, and those that are many are taken out. All
others go on to aiormq as they came: this stands where it has its stream, for which it lets itself be given a factory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any, Final, cast
from uuid import uuid4

import aio_pika
from aiormq import Channel, TransportFactory
from aiormq.abc import DeliveredMessage
from aiormq.connection import TCPTransportFactory, TLSTransportFactory
from pamqp.commands import Basic
from yarl import URL

from bridge.broker.client import decode_properties
from bridge.broker.client.confirms import Confirms
from bridge.broker.client.delivery import Delivery

Received = Callable[[Delivery], None]

_CHUNK = 65_536  # bytes that are read at once: some 100 deliveries, after which others have their turn
_TELL_EVERY_S = 1.0

_FRAME: Final = Struct(">BHI")  # kind, channel, size of what stands between it and the end
_U32: Final = Struct(">I")
_U64: Final = Struct(">Q")
_TOLD: Final = Struct(">QB")  # tag, whether it stands for all before it
_OVERHEAD: Final = _FRAME.size + 1
_END: Final = 0xCE
_METHOD, _HEADER, _BODY = 1, 2, 3
_DELIVER, _RETURN = Basic.Deliver.index, Basic.Return.index
_ACK, _NACK = Basic.Ack.index, Basic.Nack.index
_HEARTBEAT: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"
_REFUSAL: Final = b"A"  # of a server that speaks another protocol: no frame, but its own header


class Connection(aio_pika.Connection):
    """A connection whose deliveries can be taken off on the short way."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.intake = FastReader()
        self.kwargs["transport_factory"] = self.intake

    def __del__(self) -> None:
        # aio-pika's makes a close of what never opened too, for which there may be no loop any more. Who opens one of
        # these closes it.
        pass


class FastReader(TransportFactory):
    """Of one connection: its consumers, by tags that are never used again, and who publishes, by number of channel."""

    def __init__(self) -> None:
        self.consumers: dict[bytes, tuple[Channel, Received]] = {}
        self.confirms: dict[int, Confirms] = {}

    async def create(self, url: URL, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        factory = TLSTransportFactory() if url.scheme == "amqps" else TCPTransportFactory()
        reader, writer = await factory.create(url, **kwargs)
        return cast(asyncio.StreamReader, Reader(reader, self)), writer

    async def consume(self, channel: Channel, queue: str, received: Received) -> str:
        """Has `received` called with each delivery, until it is to `forget`; the consumer's tag.

        Raises: as `basic_consume` does.
        """
        tag = f"bridge-{uuid4().hex}"
        self.consumers[tag.encode()] = (channel, received)
        try:
            await channel.basic_consume(queue, _nothing, consumer_tag=tag)
        except BaseException:
            self.forget(tag)
            raise
        return tag

    def publisher(self, channel: Channel) -> Confirms:
        """What the broker says of all that is published on the channel from now on."""
        confirms = self.confirms[channel.number] = Confirms()
        return confirms

    def forget(self, tag: str) -> None:
        """What is delivered from now on goes nowhere: for a consumer that is cancelled, or whose channel closes."""
        self.consumers.pop(tag.encode(), None)


async def _nothing(_: DeliveredMessage) -> None:
    """Stands in aiormq's register of consumers, where deliveries arrive that are to be forgotten."""


class _Begun:
    """A message of which some frames are still to come. `done` is called with its properties, packed, and its body."""

    __slots__ = ("body", "content", "done", "left")

    def __init__(self, done: Callable[[bytes, bytes], None]) -> None:
        self.done = done
        self.content = b""
        self.body: list[bytes] = []
        self.left = 0  # bytes of the body

    def add(self, kind: int, payload: bytes) -> bool:
        """Whether it is whole."""
        if kind == _HEADER:
            self.content = payload
            (self.left,) = _U64.unpack_from(payload, 4)
        else:
            self.body.append(payload)
            self.left -= len(payload)
        return self.left <= 0

    def end(self) -> None:
        self.done(self.content, self.body[0] if len(self.body) == 1 else b"".join(self.body))


class Reader:
    """What aiormq reads of a `StreamReader`, without what is taken off."""

    def __init__(self, stream: asyncio.StreamReader, intake: FastReader) -> None:
        self._stream = stream
        self._consumers = intake.consumers
        self._confirms = intake.confirms
        self._data = b""
        self._at = 0
        self._begun: dict[int, _Begun] = {}  # by number of the channel
        self._passed_on = b""  # a frame that aiormq is reading
        self._read = 0  # of it
        self._taken = False  # since the last frame that was passed on
        self._told_s = 0.0

    def at_eof(self) -> bool:
        return self._stream.at_eof() and self._at == len(self._data) and self._read == len(self._passed_on)

    async def read(self) -> bytes:
        """All there is, of what are no frames."""
        rest = self._passed_on[self._read :] + self._data[self._at :] + await self._stream.read()
        self._passed_on = self._data = b""
        self._read = self._at = 0
        return rest

    async def readexactly(self, size: int) -> bytes:
        if self._read == len(self._passed_on):
            self._passed_on = await self._next()
            self._read = 0
        start = self._read
        self._read = start + size
        return self._passed_on[start : start + size]

    async def _next(self) -> bytes:
        """The next frame that takes no short way."""
        while True:
            frame = self._next_of_data()
            if frame is not None:
                self._taken = False
                return frame
            if self._taken:
                now_s = asyncio.get_running_loop().time()
                if now_s - self._told_s >= _TELL_EVERY_S:
                    # aiormq gives a connection up on which it sees nothing arrive.
                    self._told_s, self._taken = now_s, False
                    return _HEARTBEAT
                await asyncio.sleep(0)
            chunk = await self._stream.read(_CHUNK)
            if not chunk:
                raise asyncio.IncompleteReadError(self._data[self._at :], None)
            self._data = self._data[self._at :] + chunk
            self._at = 0

    def _next_of_data(self) -> bytes | None:
        """Takes off what it can, up to a frame to pass on; None where more has to be read first."""
        data, begun = self._data, self._begun
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
                begun.pop(number, None)
                if not self._method(number, data, start):
                    return data[at:end]
            elif number in begun and kind in (_HEADER, _BODY):
                if begun[number].add(kind, data[start : end - 1]):
                    begun.pop(number).end()
            else:
                return data[at:end]
        return None

    def _method(self, number: int, data: bytes, at: int) -> bool:
        """Whether it is taken off here."""
        (index,) = _U32.unpack_from(data, at)
        at += _U32.size
        if index == _DELIVER:
            return self._deliver(number, data, at)
        confirms = self._confirms.get(number)
        if confirms is None or index not in (_ACK, _NACK, _RETURN):
            return False
        if index == _RETURN:
            self._return(confirms, number, data, at)
            return True
        tag, bits = _TOLD.unpack_from(data, at)
        tell = confirms.confirmed if index == _ACK else confirms.refused
        tell(tag, multiple=bool(bits & 1))
        self._taken = True
        return True

    def _deliver(self, number: int, data: bytes, at: int) -> bool:
        end = at + 1 + data[at]
        consumer = data[at + 1 : end]
        if consumer not in self._consumers:
            return False
        (tag,) = _U64.unpack_from(data, end)
        at = end + _U64.size + 1
        at += 1 + data[at]  # the exchange
        key = data[at + 1 : at + 1 + data[at]].decode(errors="replace")
        self._begun[number] = _Begun(partial(self._delivered, consumer, tag, key))
        return True

    def _return(self, confirms: Confirms, number: int, data: bytes, at: int) -> None:
        at += 2  # the code
        reason = data[at + 1 : at + 1 + data[at]].decode(errors="replace")

        def returned(content: bytes, _: bytes) -> None:
            confirms.returned(decode_properties.read(content).message_id, reason)

        self._begun[number] = _Begun(returned)

    def _delivered(self, consumer: bytes, tag: int, key: str, content: bytes, body: bytes) -> None:
        self._taken = True
        if consumer not in self._consumers:
            return
        channel, received = self._consumers[consumer]
        try:
            received(Delivery(channel, tag, key, decode_properties.read(content), body))
        except Exception as error:  # noqa: BLE001 - it would end the connection, and with it all other consumers
            asyncio.get_running_loop().call_exception_handler(
                {"message": "A delivery's consumer failed", "exception": error}
            )
