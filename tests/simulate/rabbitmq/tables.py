"""Reads and writes AMQP tables and message properties without losing the AMQP type of any value.

pamqp decodes a short, a long and an octet to the same Python number. RabbitMQ passes each on as it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from struct import Struct, error
from types import MappingProxyType
from typing import Any, Final

from pamqp import decode

from tests.simulate.rabbitmq.errors import not_modelled

_U16, _U32, _U64, _I64 = (Struct(f">{kind}") for kind in "HIQq")
_SIZED: Final = frozenset(b"SAFx")
_WIDTHS: Final = dict(zip(b"tbBsuIilLfdDTV", (1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 5, 8, 0), strict=True))
_TYPES: Final = MappingProxyType(
    {
        b"S": "longstr",
        b"I": "signedint",
        b"i": "unsignedint",
        b"l": "long",
        b"b": "byte",
        b"B": "unsignedbyte",
        b"s": "short",
        b"u": "unsignedshort",
        b"t": "bool",
        b"T": "timestamp",
        b"F": "table",
        b"A": "array",
    }
)


def text(value: str) -> bytes:
    """Encodes a text with its type."""
    data = value.encode(errors="surrogateescape")
    return b"S" + _U32.pack(len(data)) + data


def whole(value: int) -> bytes:
    """Encodes a number of 64 bits with its type."""
    return b"l" + _I64.pack(value)


def seconds(value: int) -> bytes:
    """Encodes a timestamp with its type."""
    return b"T" + _U64.pack(value)


def array(values: Iterable[bytes]) -> bytes:
    """Encodes an array with its type. `values`: encoded with their types."""
    data = b"".join(values)
    return b"A" + _U32.pack(len(data)) + data


def type_name(encoded: bytes) -> str:
    """Returns RabbitMQ's name of the value's type."""
    return _TYPES.get(encoded[:1], "unknown")


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `entries`: by name the encoded value, which begins with its type."""

    entries: Mapping[str, bytes]

    @classmethod
    def parse(cls, data: bytes) -> Table:
        """Reads a table that begins with its size.

        Raises:
            Refusal: these bytes are no table.
        """
        try:
            return cls(dict(_entries(data)))
        except (IndexError, KeyError, error) as fault:
            raise not_modelled(f"a malformed table: {fault}") from fault

    def encode(self) -> bytes:
        """Returns the table's size and its entries."""
        parts = []
        for name, value in self.entries.items():
            data = name.encode(errors="surrogateescape")
            parts += [bytes([len(data)]), data, value]
        joined = b"".join(parts)
        return _U32.pack(len(joined)) + joined

    def value(self, name: str) -> Any:
        """Returns the decoded value; None: the table has no such name."""
        encoded = self.entries.get(name)
        return None if encoded is None else decode.embedded_value(encoded)[1]

    def changed(self, changes: Mapping[str, bytes | None]) -> Table:
        """Returns the table with these encoded values. A value of None removes its name."""
        merged = {**self.entries, **changes}
        return Table({name: value for name, value in sorted(merged.items()) if value is not None})

    def read(self) -> dict[str, Any]:
        """Returns all decoded values by name."""
        return {name: self.value(name) for name in self.entries}


def _entries(data: bytes) -> Iterable[tuple[str, bytes]]:
    at = _U32.size
    end = at + _U32.unpack_from(data)[0]
    if end > len(data):
        raise IndexError("the table is longer than the frame")
    while at < end:
        start = at + 1
        at = start + data[at]
        name, value_at, kind = data[start:at].decode(errors="surrogateescape"), at, data[at]
        at += 1 + (4 + _U32.unpack_from(data, at + 1)[0] if kind in _SIZED else _WIDTHS[kind])
        if at > end:
            raise IndexError("a value is longer than its table")
        yield name, data[value_at:at]


EMPTY: Final = Table({})
_TABLE, _SHORT, _OCTET, _LONG = range(4)
_PROPERTIES: Final = (
    ("content_type", 15, _SHORT),
    ("content_encoding", 14, _SHORT),
    ("headers", 13, _TABLE),
    ("delivery_mode", 12, _OCTET),
    ("priority", 11, _OCTET),
    ("correlation_id", 10, _SHORT),
    ("reply_to", 9, _SHORT),
    ("expiration", 8, _SHORT),
    ("message_id", 7, _SHORT),
    ("timestamp", 6, _LONG),
    ("message_type", 5, _SHORT),
    ("user_id", 4, _SHORT),
    ("app_id", 3, _SHORT),
    ("cluster_id", 2, _SHORT),
)


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of a message. `values`: the encoded value of each that is present. `headers`: their table."""

    values: Mapping[str, bytes]
    headers: Table

    @classmethod
    def parse(cls, data: bytes) -> Properties:
        """Reads the flags and values of a header frame.

        Raises:
            Refusal: these bytes are no properties.
        """
        (flags,) = _U16.unpack_from(data)
        at, values, headers = _U16.size, {}, EMPTY
        for name, bit, kind in _PROPERTIES:
            if not flags & 1 << bit:
                continue
            start = at
            at += _width(data, at, kind)
            values[name] = data[start:at]
            if kind == _TABLE:
                headers = Table.parse(values[name])
        if at != len(data):
            raise not_modelled("a header frame that is not as long as its properties")
        return cls(values, headers)

    def encode(self) -> bytes:
        """Returns the flags and values, as a header frame holds them."""
        flags, parts = 0, []
        for name, bit, _ in _PROPERTIES:
            if name in self.values:
                flags |= 1 << bit
                parts.append(self.values[name])
        return _U16.pack(flags) + b"".join(parts)

    def short(self, name: str) -> str | None:
        """Returns a property that is a short text; None: it is absent."""
        value = self.values.get(name)
        return None if value is None else value[1:].decode(errors="surrogateescape")

    def octet(self, name: str) -> int:
        """Returns a property that is a small number; 0 if it is absent."""
        return self.values.get(name, b"\0")[0]

    def with_headers(self, changes: Mapping[str, bytes | None], *, expires: bool = True) -> Properties:
        """Returns the properties with changed headers, as `Table.changed` does. Without `expires` the message's own
        expiration is removed."""
        headers = self.headers.changed(changes)
        values = {**self.values, "headers": headers.encode()}
        if not expires:
            values.pop("expiration", None)
        return Properties(values, headers)


def _width(data: bytes, at: int, kind: int) -> int:
    try:
        match kind:
            case 0:
                return _U32.size + int(_U32.unpack_from(data, at)[0])
            case 1:
                return 1 + data[at]
            case _:
                return 1 if kind == _OCTET else _U64.size
    except (IndexError, error) as fault:
        raise not_modelled(f"malformed properties: {fault}") from fault
