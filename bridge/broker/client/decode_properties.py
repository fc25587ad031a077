"""Decodes the properties of a delivery, in an eighth of the time that pamqp takes. Pure.

pamqp copies the rest of the bytes for each value. Most values are inside `x-death`, and matter only if a message was
routed wrongly. This module reads the usual types in place, and keeps `x-death` as bytes. It leaves all other types, and
all bytes that do not fit, to pamqp.

Some properties can't be read: a timestamp in microseconds, a name that is not UTF-8, tables nested over 32 deep. An
error would end the connection, and RabbitMQ would redeliver the message to every bridge: one message would stop them
all. So such a message gets a single property, a header with the reason. The checkpoint or the ingress puts the message
aside.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from pamqp import decode
from pamqp.commands import Basic
from pamqp.common import FieldTable
from pamqp.header import ContentHeader

from bridge.broker.client import encode_values
from bridge.broker.client.protocol import PROPERTIES, PropertyType
from bridge.broker.copies.copies import OWN_PREFIX
from bridge.broker.copies.properties import UNREADABLE, Properties, UnreadDeaths

_FLAGS_AT: Final = 12  # after class, weight and size of the body

_U16, _U32, _U64 = Struct(">H"), Struct(">I"), Struct(">Q")
_TEXT, _ARRAY = ord("S"), ord("A")
_TYPED_BY_VALUE: Final = frozenset(b"tV")  # truth values and nothing
_SIZED: Final = frozenset(b"SAFx")  # types whose values begin with their size, in four bytes
_WIDTHS: Final = dict(zip(b"tbBsuIilLfdDTV", (1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 5, 8, 0), strict=True))
_NUMBERS: Final = {ord(kind): Struct(">" + as_python) for kind, as_python in zip("lIisubd", "qiIhHbd", strict=True)}

_DEEPEST: Final = 32
"""The most levels of nested tables in headers. An HTTP answer is JSON, which nests up to 254 levels."""

_FAULTS: Final = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, OSError, struct.error)
"""The errors that malformed bytes cause."""


def decode_properties(content: bytes) -> Properties:
    """Decodes the properties in the payload of a header frame. If they can't be read, returns a single property: the
    header `UNREADABLE`, with the reason."""
    try:
        return _decode(content)
    except _FAULTS:
        return _by_pamqp(content)


def _by_pamqp(content: bytes) -> Properties:
    header = ContentHeader()
    try:
        header.unmarshal(content)
        if not _too_deep(header.properties.headers, _DEEPEST):
            return _from_pamqp(header.properties)
        reason = f"tables nested deeper than {_DEEPEST}"
    except _FAULTS as error:
        reason = f"{type(error).__name__}: {error}"[:200]
    return Properties(headers={UNREADABLE: reason})


def _from_pamqp(properties: Basic.Properties) -> Properties:
    """Converts properties that pamqp has decoded to the bridge's `Properties`."""
    moment = properties.timestamp
    values = {field: getattr(properties, field) for field, _, kind in PROPERTIES if kind != "timestamp"}
    values["cluster_id"] = properties.cluster_id or None
    return Properties(**values, timestamp_ms=None if moment is None else int(moment.timestamp() * 1_000))


def _too_deep(value: object, levels: int) -> bool:
    """Whether tables and arrays are nested in more than `levels` levels."""
    if not isinstance(value, dict | list):
        return False
    members = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_too_deep(member, levels - 1) for member in members)


class RawDeaths(UnreadDeaths):
    """The value of `x-death` as the broker sent it: an array, encoded as its size in four bytes and its values."""

    __slots__ = ("_raw",)

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def read(self) -> object:
        try:
            return decode.field_array(self._raw)[1]
        except _FAULTS as error:
            raise ValueError(f"x-death: {type(error).__name__}: {error}") from error

    def latest(self) -> tuple[str, str] | None:
        texts: dict[bytes, str] = {}
        try:
            for name, text in _texts_of_first_table(self._raw):
                if name in (b"queue", b"reason"):
                    texts[name] = text.decode(errors="replace")
                    if len(texts) == 2:
                        return texts[b"queue"], texts[b"reason"]
        except _FAULTS:
            pass
        return None


def _decode(content: bytes) -> Properties:
    (flags,) = _U16.unpack_from(content, _FLAGS_AT)
    at = _FLAGS_AT + _U16.size
    properties = Properties()
    for field, decode_value in _present(flags):
        value, at = decode_value(content, at)
        if field == "headers":
            value, properties.written = value  # type: ignore[misc]
        setattr(properties, field, value)
    if at != len(content):
        raise ValueError("the header frame is not as long as it says")
    return properties


@lru_cache(maxsize=256)
def _present(flags: int) -> tuple[tuple[str, _Decode], ...]:
    """Returns the field of each property that is present, and the function that decodes the property, in the order of
    the frame. `flags`: the property flags of the header frame."""
    known = [(field, flag, kind) for field, flag, kind in PROPERTIES if flags & flag]
    if sum(flag for _, flag, _ in known) != flags:
        raise ValueError("the flags name a property that AMQP does not have")
    return tuple((field, _DECODERS[kind]) for field, _, kind in known)


def _short_text(content: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + content[at]
    return content[at + 1 : end].decode(), end


def _octet(content: bytes, at: int) -> tuple[int, int]:
    return content[at], at + 1


def _timestamp_ms(content: bytes, at: int) -> tuple[int, int]:
    (value,) = _U64.unpack_from(content, at)
    if value <= 0xFFFF_FFFF:
        return value * 1_000, at + 8
    # pamqp reads a number beyond the year 2106 as milliseconds, and refuses one beyond the year 9999.
    return int(decode.timestamp(content[at : at + 8])[1].timestamp() * 1_000), at + 8


def _table(content: bytes, at: int) -> tuple[tuple[FieldTable, dict[str, bytes]], int]:
    """Decodes the table at the offset `at`. Returns the table, encoded values by name, and the offset behind the table.

    The encoded values come from clients. The decoded values do not show their AMQP types.
    """
    end = at + 4 + _U32.unpack_from(content, at)[0]
    at += 4
    table: FieldTable = {}
    written: dict[str, bytes] = {}
    while at < end:
        start = at + 1
        at = start + content[at]
        if at >= end:
            raise ValueError("a name without a value")
        name = content[start:at].decode()
        kind = content[at]
        at += 1
        if kind == _TEXT:
            start = at + 4
            at = start + _U32.unpack_from(content, at)[0]
            text = content[start:at]
            try:
                table[name] = text.decode()
            except UnicodeDecodeError:
                table[name] = text
        elif kind in _NUMBERS:
            number = _NUMBERS[kind]
            (value,) = number.unpack_from(content, at)
            table[name] = value
            at += number.size
            if not name.startswith(OWN_PREFIX) and encode_values.value(value)[0] != kind:
                written[name] = content[at - number.size - 1 : at]
        elif kind == _ARRAY and name == "x-death":
            start = at
            at += 4 + _U32.unpack_from(content, at)[0]
            table[name] = RawDeaths(content[start:at])  # type: ignore[assignment]
        else:
            used, value = decode.embedded_value(content[at - 1 :])
            if _too_deep(value, _DEEPEST - 1):
                raise ValueError("tables nested too deep")
            table[name] = value
            at += used - 1
            if kind not in _TYPED_BY_VALUE and not name.startswith(OWN_PREFIX):
                written[name] = content[at - used : at]
    if at != end:
        raise ValueError("a table is not as long as it says")
    return (table, written), at


_Decode = Callable[[bytes, int], tuple[Any, int]]
_DECODERS: Final[dict[PropertyType, _Decode]] = {
    "shortstr": _short_text, "octet": _octet, "timestamp": _timestamp_ms, "table": _table,
}  # fmt: skip


def _texts_of_first_table(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the name and the value of each text in the first table of an encoded array. Yields nothing if the array's
    first value is not a table."""
    if raw[4:5] != b"F":
        return
    at = 9
    end = at + _U32.unpack_from(raw, 5)[0]
    while at < end:
        start = at + 1
        at = start + raw[at]
        name, kind = raw[start:at], raw[at]
        at += 1
        if kind not in _SIZED:
            at += _WIDTHS[kind]
            continue
        start = at + 4
        at = start + _U32.unpack_from(raw, at)[0]
        if kind == _TEXT:
            yield name, raw[start:at]
