"""JSON as Go's encoding/json reads it into a struct, and writes it.

A member's name is matched whatever its case, the last of several counts, unknown ones are passed over, null leaves what
was there; a string must be a string and a number a number. Bytes that are no UTF-8, and halves of surrogate pairs, are
U+FFFD. The texts of errors are Go's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import orjson

SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""What strings.TrimSpace trims."""

_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]*)")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# Go writes these so in every string, for JSON that stands in HTML.
_ESCAPES: Final = (
    (b"&", b"\\u0026"),
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
# What Python's reader says, and what Go's says of the same character.
_SAYINGS: Final = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name": "looking for beginning of object key string",
    "Expecting ':'": "after object key",
    "Expecting ','": "after object key:value pair",
    "Invalid control": "in string literal",
    "Invalid \\escape": "in string escape code",
    "Invalid \\u": "in \\u hexadecimal character escape",
    "Extra data": "after top-level value",
}


class NotRead(ValueError):
    """Its text is Go's."""


class _Number(str):
    __slots__ = ()


class _Object(tuple[tuple[str, Any], ...]):
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """A Go type, and how a JSON value becomes one: None, it doesn't."""

    name: str
    take: Callable[[Any], Any]


def _whole(least: int, most: int) -> Callable[[Any], int | None]:
    def take(value: Any) -> int | None:
        if not isinstance(value, _Number) or not _WHOLE.fullmatch(value) or len(value) > 20:
            return None
        number = int(value)
        return number if least <= number <= most else None

    return take


STRING: Final = Kind("string", lambda value: value if type(value) is str else None)
BOOL: Final = Kind("bool", lambda value: value if isinstance(value, bool) else None)
INT64: Final = Kind("int64", _whole(-(1 << 63), (1 << 63) - 1))
UINT: Final = Kind("uint", _whole(0, (1 << 64) - 1))
ANY: Final = Kind("interface {}", lambda value: value if type(value) is str else written(value))
"""A string as it is, any other value as its JSON text."""


def read(document: bytes, struct: str, members: Mapping[str, Kind], *, stream: bool = False) -> dict[str, Any]:
    """Those of the members that are given. `stream`: what stands behind the value is nobody's business.

    Raises:
        NotRead
    """
    value = _parse(document, stream=stream)
    if value is None:
        return {}
    if not isinstance(value, _Object):
        raise NotRead(f"json: cannot unmarshal {_what(value)} into Go value of type {struct}")
    found: dict[str, Any] = {}
    for name, given in value:
        member = name if name in members else name.casefold()
        if (kind := members.get(member)) is None or given is None:
            continue
        try:
            taken = kind.take(given)
        except RecursionError:
            raise NotRead("exceeded max depth") from None
        if taken is None:
            what = f"number {given}" if isinstance(given, _Number) and kind in (INT64, UINT) else _what(given)
            raise NotRead(f"json: cannot unmarshal {what} into Go struct field {struct}.{member} of type {kind.name}")
        found[member] = taken
    return found


def written(value: Any) -> str:
    """What was read, as JSON again."""
    match value:
        case _Number():
            return str(value)
        case _Object():
            return "{" + ",".join(f"{written(name)}:{written(one)}" for name, one in value) + "}"
        case list():
            return "[" + ",".join(map(written, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def dumps(value: Any) -> bytes:
    content = orjson.dumps(value)
    for character, escape_sequence in _ESCAPES:
        content = content.replace(character, escape_sequence)
    return content


def _parse(document: bytes, *, stream: bool) -> Any:
    text = document.decode(errors="replace").lstrip(" \t\r\n")
    if not text:
        raise NotRead("EOF" if stream else "unexpected end of JSON input")
    try:
        return _DECODER.raw_decode(text)[0] if stream else _DECODER.decode(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text) or error.msg.startswith("Unterminated"):
            raise NotRead("unexpected EOF" if stream else "unexpected end of JSON input") from None
        says = next((says for start, says in _SAYINGS.items() if error.msg.startswith(start)), "in value")
        raise NotRead(f"invalid character {_quoted(text[error.pos])} {says}") from None
    except RecursionError:
        raise NotRead("exceeded max depth") from None


def _quoted(character: str) -> str:
    return {"'": r"'\''", '"': "'\"'"}.get(character, repr(character))


def _what(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case _Number():
            return "number"
        case str():
            return "string"
        case _Object():
            return "object"
        case _:
            return "array"


def _refuse(constant: str) -> NoReturn:
    raise NotRead(f"invalid character '{constant[0]}' looking for beginning of value")


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    return _Object((_mended(name), _mended(value)) for name, value in pairs)


def _mended(value: Any) -> Any:
    if type(value) is str and _SURROGATE.search(value):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_mended(one) for one in value]
    return value


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_Number, parse_float=_Number, parse_constant=_refuse
)
