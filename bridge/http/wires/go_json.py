"""Reads JSON into the members of a struct, and writes JSON, by the rules of Go's encoding/json.

A member's name matches in any case. If a name occurs several times, the last value counts. Unknown members and nulls
are ignored. A string member takes only a JSON string, and a number member only a JSON number. Invalid UTF-8 and halves
of surrogate pairs become U+FFFD. The texts of errors are Go's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import orjson
from starlette.requests import Request

from bridge.http import off_loop
from bridge.http.bodies import body_of
from bridge.http.json_bounds import weigh

SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""The characters that Go's strings.TrimSpace removes."""

_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]*)")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# Go escapes these characters in every JSON string, so that HTML pages can embed the JSON.
_ESCAPES: Final = (
    (b"&", b"\\u0026"),
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
# The beginning of an error message of Python's reader, and the end of Go's message for the same error.
_GO_MESSAGES: Final = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name": "looking for beginning of object key string",
    "Expecting ':'": "after object key",
    "Expecting ','": "after object key:value pair",
    "Invalid control": "in string literal",
    "Invalid \\escape": "in string escape code",
    "Invalid \\u": "in \\u hexadecimal character escape",
    "Extra data": "after top-level value",
}


class GoJsonError(ValueError):
    """The document is no valid JSON, or does not fit the struct. The error has the text that Go writes."""


class _Number(str):
    __slots__ = ()


class _Object(tuple[tuple[str, Any], ...]):
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class GoType:
    """A Go type. `name`: as in Go's errors. `convert`: returns a JSON value as this type, or None if it does not
    fit."""

    name: str
    convert: Callable[[Any], Any]


def _whole(least: int, most: int) -> Callable[[Any], int | None]:
    def convert(value: Any) -> int | None:
        if not isinstance(value, _Number) or not _WHOLE.fullmatch(value) or len(value) > 20:
            return None
        number = int(value)
        return number if least <= number <= most else None

    return convert


STRING: Final = GoType("string", lambda value: value if type(value) is str else None)
BOOL: Final = GoType("bool", lambda value: value if isinstance(value, bool) else None)
INT64: Final = GoType("int64", _whole(-(1 << 63), (1 << 63) - 1))
UINT: Final = GoType("uint", _whole(0, (1 << 64) - 1))
ANY: Final = GoType("interface {}", lambda value: value if type(value) is str else as_json(value))
"""A member of any type: a string stays unchanged, any other value becomes its JSON text."""


async def read(request: Request, struct: str, members: Mapping[str, GoType], *, stream: bool = False) -> dict[str, Any]:
    """Returns the members that the request's body gives, by name. Arguments and errors are those of `unmarshal`; in
    addition, raises ClientDisconnect if the client closed the connection."""
    return await off_loop.parsed(
        lambda document: unmarshal(document, struct, members, stream=stream), await body_of(request.receive)
    )


def unmarshal(document: bytes, struct: str, members: Mapping[str, GoType], *, stream: bool = False) -> dict[str, Any]:
    """Returns the members that the document gives, by name.

    `struct`: the name of the Go struct in errors, with its package if Go's errors name the package. `members`: the type
    of each member of the struct, by name. `stream`: ignores text behind the JSON value.

    Raises:
        GoJsonError: the document is no valid JSON, or does not fit the struct.
        TooManyValues: reading the document would take too much memory.
    """
    value = _parse(document, stream=stream)
    if value is None:
        return {}
    if not isinstance(value, _Object):
        raise GoJsonError(f"json: cannot unmarshal {_type_name(value)} into Go value of type {struct}")
    values: dict[str, Any] = {}
    for name, given in value:
        member = name if name in members else name.casefold()
        if (member_type := members.get(member)) is None or given is None:
            continue
        try:
            converted = member_type.convert(given)
        except RecursionError:
            raise GoJsonError("exceeded max depth") from None
        if converted is None:
            is_number = isinstance(given, _Number) and member_type in (INT64, UINT)
            what = f"number {given}" if is_number else _type_name(given)
            name_alone = struct.rpartition(".")[2]
            raise GoJsonError(
                f"json: cannot unmarshal {what} into Go struct field {name_alone}.{member} of type {member_type.name}"
            )
        values[member] = converted
    return values


def as_json(value: Any) -> str:
    """Returns the JSON text of a value that this module has parsed. Numbers keep every digit."""
    match value:
        case _Number():
            return str(value)
        case _Object():
            return "{" + ",".join(f"{as_json(name)}:{as_json(member)}" for name, member in value) + "}"
        case list():
            return "[" + ",".join(map(as_json, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def marshal(value: Any) -> bytes:
    return escaped(orjson.dumps(value))


def escaped(content: bytes) -> bytes:
    """Returns JSON with escapes for the characters that Go escapes: `&`, `<`, `>`, U+2028 and U+2029."""
    for character, escape_sequence in _ESCAPES:
        content = content.replace(character, escape_sequence)
    return content


def _parse(document: bytes, *, stream: bool) -> Any:
    text = weigh(document).decode(errors="replace").lstrip(" \t\r\n")
    if not text:
        raise GoJsonError("EOF" if stream else "unexpected end of JSON input")
    try:
        return _DECODER.raw_decode(text)[0] if stream else _DECODER.decode(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text) or error.msg.startswith("Unterminated"):
            raise GoJsonError("unexpected EOF" if stream else "unexpected end of JSON input") from None
        message = next((message for start, message in _GO_MESSAGES.items() if error.msg.startswith(start)), "in value")
        raise GoJsonError(f"invalid character {_quoted(text[error.pos])} {message}") from None
    except RecursionError:
        raise GoJsonError("exceeded max depth") from None


def _quoted(character: str) -> str:
    return {"'": r"'\''", '"': "'\"'"}.get(character, repr(character))


def _type_name(value: Any) -> str:
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
    raise GoJsonError(f"invalid character '{constant[0]}' looking for beginning of value")


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    return _Object((_without_surrogates(name), _without_surrogates(value)) for name, value in pairs)


def _without_surrogates(value: Any) -> Any:
    if type(value) is str and _SURROGATE.search(value):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_without_surrogates(element) for element in value]
    return value


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_Number, parse_float=_Number, parse_constant=_refuse
)
