"""Sends messages over AMQP 1.0, with values of any of its types. A message is given by its bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from struct import pack
from typing import Final
from uuid import UUID

from yarl import URL

from bridge.broker.amqp10.receiver import Receiver
from bridge.broker.amqp10.values import NULL, described, flag, symbol, text, uint

_ATTACH, _FLOW, _TRANSFER, _DISPOSITION, _SOURCE, _TARGET, _ACCEPTED = 0x12, 0x13, 0x14, 0x15, 0x28, 0x29, 0x24
_CLOSE, _ANNOTATIONS, _PROPERTIES, _APPLICATION_PROPERTIES, _DATA = 0x18, 0x72, 0x73, 0x74, 0x75

NULL_VALUE: Final = NULL
"""As an annotation RabbitMQ can't write it in AMQP 1.0, and converts it."""

UUID_VALUE: Final = b"\x98" + UUID("6f1d6d0f-7b6c-4f0e-9d3c-0d2f4f0d2f4f").bytes


def amqp_list(*members: bytes) -> bytes:
    content = pack(">I", len(members)) + b"".join(members)
    return b"\xd0" + pack(">I", len(content)) + content


def amqp_map(pairs: Mapping[bytes, bytes]) -> bytes:
    content = pack(">I", 2 * len(pairs)) + b"".join(key + value for key, value in pairs.items())
    return b"\xd1" + pack(">I", len(content)) + content


CONVERTED: Final[dict[str, bytes]] = {
    "boolean": b"\x41",
    "ubyte": b"\x50\x05",
    "ushort": b"\x60\x00\x05",
    "uint": b"\x70\x00\x00\x00\x05",
    "smalluint": b"\x52\x05",
    "uint0": b"\x43",
    "ulong": b"\x80" + b"\xff" * 8,
    "byte": b"\x51\xfb",
    "short": b"\x61\xff\xfb",
    "int": b"\x71\xff\xff\xff\xfb",
    "long": b"\x81" + b"\xff" * 8,
    "float": b"\x72" + pack(">f", 1.5),
    "double": b"\x82" + pack(">d", 1.5),
    "timestamp": b"\x83" + pack(">q", 1_700_000_000_000),
    "timestamp before 1970": b"\x83" + pack(">q", -5),
    "binary": b"\xa0\x02\xff\x00",
    "string": b"\xa1\x01s",
    "long string": text("x" * 70_000),
    "symbol": b"\xa3\x01s",
    "list": amqp_list(b"\x41", b"\xa1\x01s"),
    "map": amqp_map({text("k"): b"\x41"}),
    "array": b"\xe0\x04\x02\x50\x01\x02",
}
"""Values that RabbitMQ converts to AMQP 0.9.1, wherever they are."""

UNCONVERTED: Final[dict[str, bytes]] = {
    "uuid": UUID_VALUE,
    "char": b"\x73\x00\x00\x00c",
    "list with uuid": amqp_list(UUID_VALUE),
    "list with ulong": amqp_list(b"\x53\x05"),
    "map with uuid": amqp_map({text("k"): UUID_VALUE}),
    "map with a number as key": amqp_map({b"\x52\x01": b"\x41"}),
    "map with a long key": amqp_map({text("k" * 300): b"\x41"}),
}
"""Values that RabbitMQ can't convert to AMQP 0.9.1, neither as an application property nor as an annotation."""

DECIMALS: Final[dict[str, bytes]] = {
    "decimal32": b"\x74" + bytes(4),
    "decimal64": b"\x84" + bytes(8),
    "decimal128": b"\x94" + bytes(16),
    "list with decimal32": amqp_list(b"\x74" + bytes(4)),
    "map with decimal64": amqp_map({text("k"): b"\x84" + bytes(8)}),
}
"""Values that RabbitMQ converts from 4.3 on, wherever they are."""


def message(
    message_id: str,
    *,
    annotations: Mapping[str, bytes] | None = None,
    properties: Mapping[str, bytes] | None = None,
    content_type: str = "",
    reply_to: str = "",
    body: bytes = b"",
) -> bytes:
    """Returns the bytes of a message. `body`: sections; by default a short text as data."""
    parts = []
    if annotations:
        parts.append(_section(_ANNOTATIONS, amqp_map({symbol(name): value for name, value in annotations.items()})))
    reply = text(reply_to) if reply_to else NULL
    fields = [text(message_id), NULL, NULL, NULL, reply, NULL, symbol(content_type) if content_type else NULL]
    parts.append(described(_PROPERTIES, *fields))
    if properties:
        named = {text(name): value for name, value in properties.items()}
        parts.append(_section(_APPLICATION_PROPERTIES, amqp_map(named)))
    return b"".join((*parts, body or _section(_DATA, b"\xa0\x01x")))


def value_body(value: bytes) -> bytes:
    """Returns a body that is one value."""
    return _section(0x77, value)


class Sender(Receiver):
    """A sender to one address, such as `/exchanges/delay.in/orders`."""

    _sent = 0

    async def attach_to(self, address: str) -> None:
        source, target = described(_SOURCE), described(_TARGET, text(address))
        fields = [text(self._name), uint(0), flag(False), NULL, NULL, source, target, NULL, NULL, uint(0)]
        self._write(described(_ATTACH, *fields))
        await self._answer(_FLOW)

    async def send(self, *messages: bytes) -> None:
        """Sends at most as many messages as RabbitMQ gives credit for, and waits until it has taken them all."""
        for data in messages:
            number = self._sent
            self._sent += 1
            tag = b"\xa0\x04" + pack(">I", number)
            self._write(described(_TRANSFER, uint(0), uint(number), tag, uint(0), flag(False)) + data)
        settled = 0
        while settled < len(messages):
            fields = await self._answer(_DISPOSITION)
            first = int(fields[1].value)
            last = first if fields[2].type == "null" else int(fields[2].value)
            assert fields[4].value[0].value == _ACCEPTED, fields
            settled += last - first + 1


@asynccontextmanager
async def sending(url: str, address: str) -> AsyncIterator[Sender]:
    at = URL(url)
    reader, writer = await asyncio.open_connection(at.host, at.port)
    try:
        sender = Sender(reader, writer)
        await sender.open(at)
        await sender.attach_to(address)
        yield sender
        await sender.close()
    finally:
        writer.close()
        await writer.wait_closed()


def _section(descriptor: int, value: bytes) -> bytes:
    return b"\x00\x53" + bytes([descriptor]) + value
