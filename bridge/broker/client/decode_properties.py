"""The properties of a delivery, read by hand: what pamqp reads, in an eighth of its time. Pure.

pamqp cuts the rest of the bytes off anew for each value, and most of the values are those of `x-death`, which are
looked at where a message has gone astray. Here the usual types are read in place, deaths are kept as they came, and
all else is pamqp's: other types, and whatever does not fit, so that poison is read as `codec` has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from pamqp import decode
from pamqp.commands import Basic
from pamqp.common import FieldTable, FieldValue
from pamqp.header import ContentHeader

from bridge.broker.client.pamqp_patch import DEEPEST, FAULTS, too_deep
from topology.deaths import Death
from topology.deaths import deaths as read_deaths
from topology.deaths import latest_death as read_latest_death

_FLAGS_AT: Final = 12  # behind class, weight and size of the body

_U16, _U32 = Struct(">H"), Struct(">I")
_TEXT, _ARRAY, _NOTHING = ord("S"), ord("A"), ord("V")
_SIZED: Final = frozenset(b"SAFx")  # types whose values begin with their size, in four bytes
_WIDTHS: Final = dict(zip(b"tbBsuIilLfdDTV", (1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 5, 8, 0), strict=True))
_NUMBERS: Final = {ord(kind): Struct(">" + as_python) for kind, as_python in zip("lIisubd", "qiIhHbd", strict=True)}


def read(content: bytes) -> Basic.Properties:
    """The properties in a header frame's payload; what can't be read is none of them, with the reason."""
    try:
        return _read(content)
    except FAULTS:
        header = ContentHeader()
        header.unmarshal(content)
        return header.properties


class RawDeaths:
    """The value of `x-death` as it came."""

    __slots__ = ("_raw",)

    def __init__(self, raw: bytes) -> None:
        self._raw = raw  # an array: its size in four bytes, its values

    def read(self) -> FieldValue:
        """
        Raises:
            ValueError: it can't be read.
        """
        try:
            return decode.field_array(self._raw)[1]
        except FAULTS as error:
            raise ValueError(f"x-death: {type(error).__name__}: {error}") from error

    def latest(self) -> tuple[str, str] | None:
        """Queue and reason of the first one; None where that takes reading it all."""
        found: dict[bytes, str] = {}
        try:
            for name, text in _texts_of_first(self._raw):
                if name in (b"queue", b"reason"):
                    found[name] = text.decode(errors="replace")
                    if len(found) == 2:
                        return found[b"queue"], found[b"reason"]
        except FAULTS:
            pass
        return None


def latest_death(headers: Mapping[str, Any] | None) -> tuple[str, str] | None:
    """The queue a message left last, and why. None: it left none.

    Raises:
        ValueError: it can't be read.
    """
    died = (headers or {}).get("x-death")
    if not isinstance(died, RawDeaths):
        return read_latest_death(headers)
    return died.latest() or read_latest_death({"x-death": died.read()})


def deaths(headers: Mapping[str, Any] | None) -> list[Death]:
    """The deaths a message has died, the latest first.

    Raises:
        ValueError: they can't be read.
    """
    died = (headers or {}).get("x-death")
    return read_deaths({"x-death": died.read()} if isinstance(died, RawDeaths) else headers)


def _read(content: bytes) -> Basic.Properties:
    (flags,) = _U16.unpack_from(content, _FLAGS_AT)
    at = _FLAGS_AT + _U16.size
    properties = Basic.Properties()
    for name, read_value in _present(flags):
        value, at = read_value(content, at)
        setattr(properties, name, value)
    if at != len(content):
        raise ValueError("not as long as it says")
    return properties


@lru_cache(maxsize=256)
def _present(flags: int) -> tuple[tuple[str, _ReadValue], ...]:
    """Which properties there are, in their order, and what reads each."""
    known = [(name, flag) for name, flag in Basic.Properties.flags.items() if flags & flag]
    if sum(flag for _, flag in known) != flags:
        raise ValueError("more properties than there are")
    return tuple((name, _READ[Basic.Properties.amqp_type(name)]) for name, _ in known)


def _short(content: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + content[at]
    return content[at + 1 : end].decode(), end


def _octet(content: bytes, at: int) -> tuple[int, int]:
    return content[at], at + 1


def _timestamp(content: bytes, at: int) -> tuple[datetime, int]:
    return decode.timestamp(content[at : at + 8])[1], at + 8


def _table(content: bytes, at: int) -> tuple[FieldTable, int]:
    end = at + 4 + _U32.unpack_from(content, at)[0]
    at += 4
    table: FieldTable = {}
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
            (table[name],) = number.unpack_from(content, at)
            at += number.size
        elif kind == _ARRAY and name == "x-death":
            start = at
            at += 4 + _U32.unpack_from(content, at)[0]
            table[name] = RawDeaths(content[start:at])  # type: ignore[assignment]
        else:
            used, value = decode.embedded_value(content[at - 1 :])
            if too_deep(value, DEEPEST - 1):
                raise ValueError("tables nested too deep")
            table[name] = value
            at += used - 1
    if at != end:
        raise ValueError("a table is not as long as it says")
    return table, at


_ReadValue = Callable[[bytes, int], tuple[Any, int]]
_READ: Final[dict[str, _ReadValue]] = {
    "shortstr": _short, "octet": _octet, "timestamp": _timestamp, "table": _table,
}  # fmt: skip


def _texts_of_first(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Name and value of each text in the table that an array begins with; nothing where it begins with no table."""
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
