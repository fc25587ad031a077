"""Encodes texts and header values for AMQP 0-9-1. Pure.

This module encodes tables, arrays, floats and bytes itself, and leaves rare types to pamqp. pamqp rounds floats to 32
bits, cuts names to 128 bytes, and refuses `bytes`. Here `bytes` hold a text that is not valid UTF-8.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from struct import Struct
from types import MappingProxyType
from typing import Any, Final

from pamqp import encode

_LONG: Final = Struct(">I")
_LONG_LONG: Final = Struct(">q")
_DOUBLE: Final = Struct(">d")
_SMALL: Final = tuple(encode.encode_table_value(number) for number in range(128))
_NONE: Final[Mapping[str, bytes]] = MappingProxyType({})


def short_text(text: str) -> bytes:
    """Encodes a text of up to 255 bytes, with its length in one byte.

    Raises:
        ValueError: the text is not valid Unicode, or longer than 255 bytes.
        TypeError: it is no text.
    """
    packed = str.encode(text)  # a TypeError if a forged copy has a number in its place
    if len(packed) > 255:
        raise ValueError(f"a text of {len(packed)} bytes; AMQP allows 255 here")
    return b"%c%b" % (len(packed), packed)


def long(size: int) -> bytes:
    """Encodes a size in four bytes."""
    return _LONG.pack(size)


def text_value(text: str) -> bytes:
    """Encodes a text as a value in a table."""
    packed = text.encode()
    return b"S" + _LONG.pack(len(packed)) + packed


def whole_value(number: int) -> bytes:
    """Encodes a whole number as a value in a table, in the smallest type that holds it.

    Raises:
        TypeError: no AMQP type holds the number.
    """
    if 0 <= number < 128:
        return _SMALL[number]
    if 2**32 <= number < 2**63:
        return b"l" + _LONG_LONG.pack(number)
    return encode.encode_table_value(number)


def value(one: Any) -> bytes:
    """Encodes a value in a table. Bytes are a text that is not UTF-8.

    Raises:
        TypeError, ValueError, ArithmeticError, struct.error: AMQP can't hold the value.
    """
    match one:
        case dict():
            return b"F" + table(one)
        case list():
            members = b"".join(map(value, one))
            return b"A" + _LONG.pack(len(members)) + members
        case bytes():
            return b"S" + _LONG.pack(len(one)) + one
        case float():
            return b"d" + _DOUBLE.pack(one)
        case _:
            return encode.encode_table_value(one)


def table(entries: Mapping[str, Any], written: Mapping[str, bytes] = _NONE) -> bytes:
    """Encodes a table in the order of its names, with its size in four bytes. `written`: encoded values by name; each
    replaces the value in `entries`.

    Raises:
        TypeError, ValueError, ArithmeticError, struct.error: AMQP can't hold a name or a value.
    """
    packed = []
    for name in sorted(entries):
        try:
            one = written[name] if name in written else value(entries[name])
        except (TypeError, ValueError, ArithmeticError, struct.error) as error:
            raise TypeError(f"{name}: {error}") from error
        packed += [short_text(name), one]
    size = sum(map(len, packed))
    return b"".join([_LONG.pack(size), *packed])
