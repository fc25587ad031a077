"""Makes pamqp read and write the properties of any AMQP client's message without an error.

aiormq ends the connection on properties that pamqp can't decode. Examples are a timestamp in microseconds, a name that
is not UTF-8, and tables nested too deep. RabbitMQ then redelivers the message to every bridge, and each loses its
connection: one message would stop all bridges. So the patched pamqp gives such a message a single property, a header
with the reason. The checkpoint puts the message aside.

Unpatched, pamqp can't write some values that it reads: text that is not UTF-8, and numbers beyond 32-bit floats. It
rounds all other floats to 32 bits. The patch writes these values unchanged. pamqp writes a whole number in the smallest
type that holds the number. So a `WrittenValue` keeps the type that a client chose.
"""

from __future__ import annotations

import struct
from typing import Final

from pamqp import encode
from pamqp.commands import Basic
from pamqp.common import FieldValue, Struct
from pamqp.header import ContentHeader

from bridge.broker.copies.properties import UNREADABLE, WrittenValue

DEEPEST: Final = 32
"""The most levels of nested tables in headers. An HTTP answer is JSON, which nests up to 254 levels."""

FAULTS: Final = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, OSError, struct.error)
"""The errors that malformed bytes cause. Each of them would end the connection."""

_unmarshal = ContentHeader.unmarshal
_encode = encode.encode_table_value


def install() -> None:
    """Patches pamqp for every connection of this process."""
    ContentHeader.unmarshal = _read_header  # type: ignore[assignment,method-assign]
    encode.encode_table_value = _encode_value


def _read_header(header: ContentHeader, data: bytes) -> None:
    try:
        _unmarshal(header, data)
        reason = f"tables nested deeper than {DEEPEST}" if too_deep(header.properties.headers, DEEPEST) else ""
    except FAULTS as error:
        reason = f"{type(error).__name__}: {error}"[:200]
    if reason:
        header.properties = Basic.Properties(headers={UNREADABLE: reason})


def too_deep(value: object, levels: int) -> bool:
    """Whether tables and arrays are nested in more than `levels` levels."""
    if not isinstance(value, dict | list):
        return False
    members = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(too_deep(member, levels - 1) for member in members)


def _encode_value(value: FieldValue | WrittenValue) -> bytes:
    if isinstance(value, WrittenValue):
        return value.raw
    if isinstance(value, bytes):
        return b"S" + Struct.integer.pack(len(value)) + value
    if isinstance(value, float):
        return b"d" + Struct.double.pack(value)
    return _encode(value)
