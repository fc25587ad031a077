"""Encodes and decodes the values of AMQP 1.0. Pure.

A decoded value keeps its type, because RabbitMQ converts some types and not others. This module has only the encoders
that a receiver's frames need. (AMQP 1.0, part 1: https://docs.oasis-open.org/amqp/core/v1.0/os/)
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import Any, Final, NamedTuple


class Typed(NamedTuple):
    """A value and the name of its AMQP 1.0 type. `value`: the members of a list or an array; the pairs of a map;
    descriptor and value of a described value; the bytes of a char, a uuid or a decimal."""

    type: str
    value: Any


_U8, _U32 = Struct(">B"), Struct(">I")

_EMPTY: Final[dict[int, Typed]] = {
    0x40: Typed("null", None),
    0x41: Typed("boolean", True),
    0x42: Typed("boolean", False),
    0x43: Typed("uint", 0),
    0x44: Typed("ulong", 0),
    0x45: Typed("list", []),
}
_NUMBERS: Final = {
    code: (name, Struct(layout))
    for code, name, layout in (
        (0x50, "ubyte", ">B"),
        (0x51, "byte", ">b"),
        (0x52, "uint", ">B"),
        (0x53, "ulong", ">B"),
        (0x54, "int", ">b"),
        (0x55, "long", ">b"),
        (0x56, "boolean", ">?"),
        (0x60, "ushort", ">H"),
        (0x61, "short", ">h"),
        (0x70, "uint", ">I"),
        (0x71, "int", ">i"),
        (0x72, "float", ">f"),
        (0x73, "char", ">4s"),
        (0x74, "decimal32", ">4s"),
        (0x80, "ulong", ">Q"),
        (0x81, "long", ">q"),
        (0x82, "double", ">d"),
        (0x83, "timestamp", ">q"),
        (0x84, "decimal64", ">8s"),
        (0x94, "decimal128", ">16s"),
        (0x98, "uuid", ">16s"),
    )
}
_TEXTS: Final = {
    code: (name, size)
    for code, name, size in (
        (0xA0, "binary", _U8),
        (0xA1, "string", _U8),
        (0xA3, "symbol", _U8),
        (0xB0, "binary", _U32),
        (0xB1, "string", _U32),
        (0xB3, "symbol", _U32),
    )
}
_COMPOUNDS: Final = {
    code: (name, size)
    for code, name, size in (
        (0xC0, "list", _U8),
        (0xC1, "map", _U8),
        (0xD0, "list", _U32),
        (0xD1, "map", _U32),
        (0xE0, "array", _U8),
        (0xF0, "array", _U32),
    )
}
_DEEPEST: Final = 64


def decode(data: bytes, at: int = 0) -> tuple[Typed, int]:
    """Decodes the value at the offset `at`. Returns the value and the offset behind it.

    Raises:
        ValueError: there is no whole value, or values are nested in more than 64 levels.
    """
    try:
        return _decode(data, at, _DEEPEST)
    except (LookupError, struct.error) as error:
        raise ValueError(f"there is no value of AMQP 1.0 at byte {at}") from error


def _decode(data: bytes, at: int, levels: int) -> tuple[Typed, int]:
    if levels == 0:
        raise ValueError(f"values are nested in more than {_DEEPEST} levels")
    code = data[at]
    if code == 0x00:
        descriptor, at = _decode(data, at + 1, levels - 1)
        value, at = _decode(data, at, levels - 1)
        return Typed("described", (descriptor, value)), at
    return _of_code(data, code, at + 1, levels)


def _of_code(data: bytes, code: int, at: int, levels: int) -> tuple[Typed, int]:
    """Decodes a value whose type code was read already. `at`: the offset behind the code. `levels`: how many levels of
    nesting are still allowed."""
    if code in _EMPTY:
        return _EMPTY[code], at
    if code in _NUMBERS:
        name, layout = _NUMBERS[code]
        return Typed(name, layout.unpack_from(data, at)[0]), at + layout.size
    if code in _TEXTS:
        name, width = _TEXTS[code]
        start = at + width.size
        end = start + width.unpack_from(data, at)[0]
        raw = data[start:end]
        if end > len(data):
            raise LookupError
        return Typed(name, raw if name == "binary" else raw.decode(errors="replace")), end
    name, width = _COMPOUNDS[code]
    end = at + width.size + width.unpack_from(data, at)[0]
    count = width.unpack_from(data, at + width.size)[0]
    at += 2 * width.size
    if end > len(data) or count > len(data):
        raise LookupError
    members: list[Typed] = []
    if name == "array":
        code, at = data[at], at + 1
        if code == 0x00:
            return Typed("array of described values", None), end
        for _ in range(count):
            member, at = _of_code(data, code, at, levels - 1)
            members.append(member)
        return Typed(name, members), end
    for _ in range(count):
        member, at = _decode(data, at, levels - 1)
        members.append(member)
    if name == "map":
        return Typed(name, list(zip(members[::2], members[1::2], strict=True))), end
    return Typed(name, members), end


NULL: Final = b"\x40"


def flag(value: bool) -> bytes:
    return b"\x41" if value else b"\x42"


def ubyte(value: int) -> bytes:
    return b"\x50" + _U8.pack(value)


def uint(value: int) -> bytes:
    return b"\x70" + _U32.pack(value)


def text(value: str) -> bytes:
    raw = value.encode()
    return b"\xb1" + _U32.pack(len(raw)) + raw


def symbol(value: str) -> bytes:
    raw = value.encode()
    return b"\xb3" + _U32.pack(len(raw)) + raw


def binary(raw: bytes) -> bytes:
    return b"\xb0" + _U32.pack(len(raw)) + raw


def described(descriptor: int, *fields: bytes) -> bytes:
    """Encodes a list with a descriptor, such as a performative, a source or an outcome. `descriptor`: the code that
    says what the list is. `fields`: the encoded members of the list."""
    content = _U32.pack(len(fields)) + b"".join(fields)
    return b"\x00\x53" + _U8.pack(descriptor) + b"\xd0" + _U32.pack(len(content)) + content
