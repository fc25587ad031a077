"""Reading and writing what any AMQP client may have put into the properties of a message.

The client library ends the connection on properties it can't decode: a timestamp in microseconds is a year it does not
know, a name may be no UTF-8, tables may be nested too deep. The message then comes again, to every bridge, and ends
every connection it comes over: one message would stop them all. So such properties are read as none, with a header that
says why, and the checkpoint puts the message aside.

Some of what it reads it can't write: text that is no UTF-8, and numbers beyond 32-bit floats, to which it rounds all
others.
"""

from __future__ import annotations

import struct
from typing import Final

from pamqp import encode
from pamqp.commands import Basic
from pamqp.common import FieldValue, Struct
from pamqp.header import ContentHeader

UNREADABLE: Final = "x-delay-unreadable"
"""The header that says why the properties of a delivery could not be read. A client may forge it, to no other end than
to have its message put aside."""

DEEPEST: Final = 32
"""Levels of tables in headers; JSON, which HTTP answers are, holds 254."""

FAULTS: Final = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, OSError, struct.error)
"""What comes of bytes that are not what they say they are. Any of it would end the connection."""

_unmarshal = ContentHeader.unmarshal
_encode = encode.encode_table_value


def install() -> None:
    """Makes every connection of this process read and write so."""
    ContentHeader.unmarshal = _read  # type: ignore[assignment,method-assign]
    encode.encode_table_value = _write


def _read(header: ContentHeader, data: bytes) -> None:
    try:
        _unmarshal(header, data)
        reason = f"tables nested deeper than {DEEPEST}" if too_deep(header.properties.headers, DEEPEST) else ""
    except FAULTS as error:
        reason = f"{type(error).__name__}: {error}"[:200]
    if reason:
        header.properties = Basic.Properties(headers={UNREADABLE: reason})


def too_deep(value: object, levels: int) -> bool:
    """Whether tables and arrays are nested in more than so many levels."""
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(too_deep(one, levels - 1) for one in inner)


def _write(value: FieldValue) -> bytes:
    if isinstance(value, bytes):
        return b"S" + Struct.integer.pack(len(value)) + value
    if isinstance(value, float):
        return b"d" + Struct.double.pack(value)
    return _encode(value)
