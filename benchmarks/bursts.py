"""Publishes and consumes over AMQP in bursts of bytes that are made once, so that the client costs next to nothing."""

from __future__ import annotations

import asyncio
from struct import Struct
from typing import Final, Self, cast

from pamqp import body, frame, header
from pamqp.base import Frame
from pamqp.commands import Basic, Channel, Confirm, Connection
from pamqp.constants import FRAME_METHOD
from pamqp.header import ProtocolHeader
from yarl import URL

from benchmarks.errors import BenchError

_HEAD: Final = Struct(">BHI")
_ACK: Final = Struct(">QB")
_METHOD_ID: Final = Struct(">I")
_NUMBER: Final = 1  # of the only channel


class BurstClient(asyncio.Protocol):
    """A connection with one channel, in confirm mode."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._data = bytearray()
        self._answers: asyncio.Queue[Frame] = asyncio.Queue()
        self._moved = asyncio.Event()
        self._acks_every = 0
        self.confirmed = 0
        self.delivered = 0

    @classmethod
    async def opened(cls, url: str) -> Self:
        """Connects, logs in and opens the channel."""
        given = URL(url)
        _, client = await asyncio.get_running_loop().create_connection(cls, given.host or "", given.port or 0)
        client.write(ProtocolHeader().marshal())
        await client._answer(Connection.Start)
        login = f"\x00{given.user}\x00{given.password}"
        client.send(Connection.StartOk({}, "PLAIN", login, "en_US"), 0)
        await client._answer(Connection.Tune)
        client.send(Connection.TuneOk(16, 131_072, 0), 0)
        client.send(Connection.Open(given.path.strip("/") or "/"), 0)
        await client._answer(Connection.OpenOk)
        client.send(Channel.Open())
        await client._answer(Channel.OpenOk)
        client.send(Confirm.Select())
        await client._answer(Confirm.SelectOk)
        return client

    async def publish(self, burst: bytes, of: int, count: int, window: int) -> None:
        """Publishes `count` messages in bursts of `of`, at most `window` of them without a confirm."""
        sent = done = self.confirmed
        done += count
        while sent < done:
            while sent - self.confirmed + of > window:
                await self._until_moved()
            self.write(burst)
            sent += of
        while self.confirmed < done:
            await self._until_moved()

    async def consume(self, queue: str, *, prefetch: int = 512, acks_every: int = 64) -> None:
        """Begins to take messages of the queue, and to acknowledge them."""
        self._acks_every = acks_every
        self.send(Basic.Qos(prefetch_count=prefetch))
        await self._answer(Basic.QosOk)
        self.send(Basic.Consume(queue=queue))
        await self._answer(Basic.ConsumeOk)

    def settle(self) -> None:
        """Acknowledges what has come, before the connection is closed."""
        self.send(Basic.Ack(delivery_tag=self.delivered, multiple=True))
        self.send(Connection.Close(200, "done", 0, 0), 0)

    def send(self, method: Frame, channel: int = _NUMBER) -> None:
        self.write(frame.marshal(method, channel))

    def write(self, data: bytes) -> None:
        if self._transport is None:
            raise BenchError("the broker has closed the connection")
        self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def _answer(self, kind: type[Frame]) -> None:
        async with asyncio.timeout(20):
            found = await self._answers.get()
        if not isinstance(found, kind):
            raise BenchError(f"the broker answered {found!r}, and not {kind.__name__}")

    async def _until_moved(self) -> None:
        self._moved.clear()
        async with asyncio.timeout(20):
            await self._moved.wait()
        if self._transport is None or not self._answers.empty():
            raise BenchError("the broker has closed the connection or the channel")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._moved.set()

    def data_received(self, data: bytes) -> None:
        found = self._data
        found += data
        place = 0
        while len(found) - place >= _HEAD.size:
            kind, channel, size = _HEAD.unpack_from(found, place)
            end = place + _HEAD.size + size + 1
            if end > len(found):
                break
            if kind == FRAME_METHOD:
                self._method(bytes(found[place:end]), channel)
            place = end
        del found[:place]
        self._moved.set()

    def _method(self, data: bytes, channel: int) -> None:
        method = _METHOD_ID.unpack_from(data, _HEAD.size)[0]
        if method == Basic.Ack.index:
            # RabbitMQ confirms in the order of the publishes, except for a multiple-ack of earlier ones.
            tag, multiple = _ACK.unpack_from(data, _HEAD.size + _METHOD_ID.size)
            self.confirmed = tag if multiple else self.confirmed + 1
        elif method == Basic.Deliver.index:
            self.delivered += 1
            if self.delivered % self._acks_every == 0:
                self.send(Basic.Ack(delivery_tag=self.delivered, multiple=True))
        else:
            unmarshalled = frame.unmarshal(data)[2]
            assert isinstance(unmarshalled, Frame)
            self._answers.put_nowait(unmarshalled)


def burst_of(count: int, exchange: str, routing_key: str, content: bytes, properties: Basic.Properties) -> bytes:
    """The bytes of `count` equal publishes."""
    one = (
        Basic.Publish(exchange=exchange, routing_key=routing_key),
        header.ContentHeader(0, len(content), properties),
        body.ContentBody(content),
    )
    return b"".join(frame.marshal(part, _NUMBER) for part in one) * count
