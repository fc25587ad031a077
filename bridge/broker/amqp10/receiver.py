"""Takes messages out of a queue over AMQP 1.0, where RabbitMQ does not convert them to AMQP 0.9.1.

    open a connection ──> attach to the queue ──> credit, and drain ──> each message: accept it, or leave it
                                                                  close: RabbitMQ requeues those that were left

RabbitMQ also ends the session if it can't write a message in AMQP 1.0. Then it requeues all messages that were left.

This module has only the parts of AMQP 1.0 that one receiver needs: one session, one link.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from ssl import SSLContext
from struct import Struct
from typing import Final
from urllib.parse import quote
from uuid import uuid4

from yarl import URL

from bridge.broker.amqp10.values import NULL, Typed, binary, decode, described, flag, symbol, text, ubyte, uint
from bridge.model.errors import BrokerUnavailable

_SASL_HEADER, _AMQP_HEADER = b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x01\x00\x00"
_FRAME: Final = Struct(">IBBH")  # size with these eight bytes, words before the body, kind, channel
_OF_AMQP, _OF_SASL = 0, 1
_MAX_FRAME: Final = 131_072
_WINDOW: Final = 2**31 - 1  # frames: TCP bounds what is on its way
_MECHANISMS, _INIT, _OUTCOME = 0x40, 0x41, 0x44
_OPEN, _BEGIN, _ATTACH, _FLOW, _TRANSFER, _DISPOSITION, _DETACH, _END, _CLOSE = range(0x10, 0x19)
_SOURCE, _TARGET, _ACCEPTED = 0x28, 0x29, 0x24
_PORTS: Final = {"amqp": 5672, "amqps": 5671}


class NoAmqp10(BrokerUnavailable):
    """RabbitMQ does not speak AMQP 1.0 on this port. Versions before 4.0 need a plugin for it."""


class DrainCut(BrokerUnavailable):
    """The AMQP 1.0 session ended while messages were drained: RabbitMQ ended it, or the connection was lost. One of the
    messages may be the cause."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A message as bytes, and the delivery number that `Receiver.accept` needs."""

    number: int
    message: bytes


class Receiver:
    """Receives the messages of one queue over AMQP 1.0. It has no time limits; callers set them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._name = f"delaybridge-{uuid4().hex}"
        self._next_incoming = 0  # the number that RabbitMQ gives its next transfer
        self._delivered = 0  # RabbitMQ's count of the link's deliveries, which does not begin at 0
        self.version: tuple[int, ...] = ()
        """The node's version, such as (4, 3, 6); empty: the node does not say it."""

    async def drain(self, most: int, *, at_once: int) -> AsyncIterator[Transfer]:
        """Yields up to `most` messages, the oldest first, and ends when the queue has no more.

        `at_once`: how many messages RabbitMQ may send before the receiver asks for more. With 1, if a message makes
        RabbitMQ end the session, all earlier messages have arrived, and their acceptances are written.

        Raises:
            DrainCut: RabbitMQ ended the session, or the connection was lost.
        """
        parts: list[bytes] = []
        number = credit = 0
        while most:
            if not credit:
                credit = min(at_once, most)
                self._ask(credit)
            try:
                code, fields, payload = await self._next()
            except BrokerUnavailable as error:
                raise DrainCut(str(error)) from error
            if code == _TRANSFER:
                self._next_incoming = _after(self._next_incoming)
                if not parts:
                    number = int(fields[1].value)
                parts.append(payload)
                if not _flag(fields, 5):  # this was the message's last part
                    self._delivered = _after(self._delivered)
                    yield Transfer(number, b"".join(parts))
                    most, credit, parts = most - 1, credit - 1, []
            elif code == _FLOW and _flag(fields, 8) and int(fields[5].value) != self._delivered:
                return  # RabbitMQ counts the credit that it did not use as delivered

    def _ask(self, credit: int) -> None:
        """Gives RabbitMQ credit for this many messages. If the queue has fewer messages, RabbitMQ sends all of them,
        and then a flow frame."""
        window = [uint(self._next_incoming), uint(_WINDOW), uint(0), uint(_WINDOW)]
        self._write(described(_FLOW, *window, uint(0), uint(self._delivered), uint(credit), NULL, flag(True)))

    def accept(self, number: int) -> None:
        """Accepts a message: RabbitMQ removes it from the queue. `number`: the message's `Transfer.number`."""
        fields = [flag(True), uint(number), uint(number), flag(True), described(_ACCEPTED)]
        self._write(described(_DISPOSITION, *fields))

    async def close(self) -> None:
        """Closes the connection, and returns once RabbitMQ has read all that was written.

        Raises:
            BrokerUnavailable: the connection was lost before that.
        """
        self._write(described(_CLOSE))
        while (await self._next(closing=True))[0] != _CLOSE:
            pass

    async def open(self, url: URL) -> None:
        """Logs in and begins a session. `url`: the node's AMQP URL, which names the user and the virtual host.

        Raises:
            NoAmqp10: RabbitMQ speaks no AMQP 1.0 on this port.
            BrokerUnavailable: RabbitMQ refuses the user or the virtual host, or the connection was lost.
        """
        writer = self._writer
        writer.write(_SASL_HEADER)
        await self._expect(_SASL_HEADER)
        await self._answer(_MECHANISMS)
        login = f"\0{url.user or 'guest'}\0{url.password or 'guest'}".encode()
        self._write(described(_INIT, symbol("PLAIN"), binary(login)), kind=_OF_SASL)
        outcome = await self._answer(_OUTCOME)
        if outcome[0].value != 0:
            raise BrokerUnavailable("RabbitMQ refuses the user of BRIDGE_AMQP_URL over AMQP 1.0")
        writer.write(_AMQP_HEADER)
        await self._expect(_AMQP_HEADER)
        vhost = url.path.removeprefix("/") or "/"
        self._write(described(_OPEN, text(self._name), text(f"vhost:{vhost}"), uint(_MAX_FRAME)))
        self._write(described(_BEGIN, NULL, uint(0), uint(_WINDOW), uint(_WINDOW)))
        self.version = _version_of(await self._answer(_OPEN))
        self._next_incoming = int((await self._answer(_BEGIN))[1].value)

    async def attach(self, queue: str) -> None:
        """Attaches to a queue. RabbitMQ sends no message until `drain` asks for messages.

        Raises:
            BrokerUnavailable: RabbitMQ refuses the queue, or the connection was lost.
        """
        source = described(_SOURCE, text(f"/queues/{quote(queue, safe='')}"))
        modes = [ubyte(0), ubyte(0)]  # the receiver settles each message when it accepts it
        self._write(described(_ATTACH, text(self._name), uint(0), flag(True), *modes, source, described(_TARGET)))
        attached = await self._answer(_ATTACH)
        self._delivered = int(attached[9].value or 0) if len(attached) > 9 else 0

    async def _expect(self, header: bytes) -> None:
        if await self._read(len(header)) != header:
            raise NoAmqp10("RabbitMQ does not speak AMQP 1.0")

    async def _answer(self, wanted: int) -> list[Typed]:
        while True:
            code, fields, _ = await self._next()
            if code == wanted:
                return fields

    async def _next(self, *, closing: bool = False) -> tuple[int, list[Typed], bytes]:
        """Reads the next frame that is not empty. Returns the code of the frame's performative, the performative's
        fields, and the payload.

        `closing`: also return a frame that ends the link, the session or the connection. Without `closing`, such a
        frame raises BrokerUnavailable.
        """
        while True:
            size, words, _, _ = _FRAME.unpack(await self._read(_FRAME.size))
            body = await self._read(size - _FRAME.size)
            body = body[4 * words - _FRAME.size :]
            if body:
                break
        try:
            performative, end = decode(body)
            descriptor, fields = performative.value
            code, values = int(descriptor.value), list(fields.value)
        except (ValueError, TypeError) as error:
            raise BrokerUnavailable(f"RabbitMQ sent an unreadable frame of AMQP 1.0: {error}") from error
        if code in (_DETACH, _END, _CLOSE) and not closing:
            raise BrokerUnavailable(f"RabbitMQ ended the AMQP 1.0 connection: {_said(values)}")
        return code, values, body[end:]

    async def _read(self, size: int) -> bytes:
        try:
            return await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, OSError) as error:
            raise BrokerUnavailable("the AMQP 1.0 connection to RabbitMQ was lost") from error

    def _write(self, performative: bytes, *, kind: int = _OF_AMQP) -> None:
        self._writer.write(_FRAME.pack(_FRAME.size + len(performative), 2, kind, 0) + performative)


@asynccontextmanager
async def receiving(url: str, queue: str, tls: SSLContext | None) -> AsyncIterator[Receiver]:
    """Yields a receiver that is attached to a queue, on the node with this AMQP URL.

    Raises:
        BrokerUnavailable: RabbitMQ is away, or refuses the login or the queue.
        NoAmqp10: RabbitMQ speaks no AMQP 1.0 on this port.
    """
    address = URL(url)
    port = address.port or _PORTS[address.scheme]
    try:
        reader, writer = await asyncio.open_connection(
            address.host, port, ssl=tls if address.scheme == "amqps" else None
        )
    except OSError as error:
        raise BrokerUnavailable(f"no AMQP 1.0 connection to RabbitMQ: {error}") from error
    try:
        receiver = Receiver(reader, writer)
        await receiver.open(address)
        await receiver.attach(queue)
        yield receiver
        await receiver.close()
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def _after(number: int) -> int:
    return (number + 1) % 2**32


def _version_of(opened: list[Typed]) -> tuple[int, ...]:
    properties = opened[9].value if len(opened) > 9 and opened[9].type == "map" else []
    version = next((str(value.value) for key, value in properties if key.value == "version"), "")
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _flag(fields: list[Typed], at: int) -> bool:
    return len(fields) > at and bool(fields[at].value)


def _said(fields: list[Typed]) -> str:
    for field in fields:
        if field.type == "described":
            said = " ".join(str(one.value) for one in field.value[1].value[:2])
            return said.partition("\n")[0]  # without the stack
    return "without a reason"
