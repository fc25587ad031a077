"""Converts the faults that msgspec finds in a request to field errors: path, value, limit, and a sentence. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Raw

from bridge.http import exact_json
from bridge.http.structs import Refused
from bridge.model.errors import FieldError

WHOLE: Final = "request"
"""The name that an error about the whole request has as its field."""

_MOST_SHOWN: Final = 4_096  # bytes of a value in an error: an answer shows 200 characters

_TYPES: Final = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_PARTS: Final = {"str": "characters", "array": "entries"}
_BOUNDS: Final = {"<": "at most", ">": "at least"}
_AT: Final = re.compile(r" - at `\$(.*)`$")
_STEP: Final = re.compile(r"[^.\[\]]+")
_TYPE: Final = re.compile(r"Expected `(\w+)[^`]*`, got ")
_LENGTH: Final = re.compile(r"Expected `(str|array)` of length ([<>])= (\d+)")
_RANGE: Final = re.compile(r"Expected `\w+` ([<>])= (.+)")
_PATTERN: Final = re.compile(r"Expected `str` matching regex '(.*)'")
_MISSING: Final = re.compile(r"Object missing required field `(.*)`")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`")


def faults(error: msgspec.ValidationError, request: Any, name: str, kind: Any) -> Iterator[FieldError]:
    """Yields the field errors for one error of msgspec.

    Args:
        request: the members of the whole request by name, to find the wrong values. JSON in it may be text (`Raw`).
        name: the field that was read; empty: the whole request.
        kind: the type of the field, or of the request.
    """
    text, cause = str(error), error.__cause__
    at = _AT.search(text)
    path = [name, *_STEP.findall(at[1])] if at else [name]
    text = text[: at.start()] if at else text
    if isinstance(cause, Refused):
        for field in cause.fields or ("",):
            yield _fault(request, [*path, *field.split(".")], cause.limit, text, is_secret=cause.is_secret)
    elif found := _MISSING.match(text):
        yield missing(".".join(filter(None, [*path, found[1]])))
    elif found := _UNKNOWN.match(text):
        yield unknown(request, [*path, found[1]])
    else:
        yield _fault(request, path, *_sentence(text, kind))


def missing(field: str) -> FieldError:
    return FieldError(field=field, value=None, limit=None, message="is required")


def unknown(request: Any, path: list[str], limit: list[str] | None = None) -> FieldError:
    """Returns the error for an unknown field. `request`: as for `faults`. `path`: the names that lead to the field.
    `limit`: the known fields; None: the error does not name them."""
    return _fault(request, path, limit, "is unknown: remove it or correct its name")


def shown(value: Any) -> Any:
    """Returns a request's value for the member `value` of a field error. A JSON string becomes a string, and other JSON
    stays text. Cuts a large value to its first 4,096 bytes or characters. `problems.shown` cuts it further."""
    if isinstance(value, Mapping):
        value = Raw(exact_json.dumps(value))
    if not isinstance(value, Raw):
        return value[:_MOST_SHOWN] if isinstance(value, str) else value
    text = bytes(memoryview(value)[:_MOST_SHOWN]).lstrip()
    if len(memoryview(value)) > _MOST_SHOWN:
        return text.removeprefix(b'"').decode(errors="replace")
    return msgspec.json.decode(text, type=str) if text.startswith(b'"') else Raw(exact_json.compact(text))


def _fault(request: Any, path: list[str], limit: Any, message: str, *, is_secret: bool = False) -> FieldError:
    path = [step for step in path if step]
    value = None if is_secret else shown(_part(request, path))
    return FieldError(field=".".join(path) or WHOLE, value=value, limit=limit, message=message)


def _part(value: Any, path: list[str]) -> Any:
    """Returns the part of the value at the end of the path; None if there is no such part."""
    for step in path:
        if isinstance(value, Raw):
            value = msgspec.json.decode(value, type=list[Raw] | dict[str, Raw] | None)
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit():
            value = value[int(step)]
    return value


def _sentence(text: str, kind: Any) -> tuple[Any, str]:
    """Returns the limit and the sentence for the text of an error of msgspec. `kind`: the type of the wrong value."""
    if choices := _choices(kind):
        return choices, f"must be {choices}"
    if found := _TYPE.match(text):
        return _TYPES[found[1]], f"must be {_TYPES[found[1]]}"
    if found := _LENGTH.match(text):
        return int(found[3]), f"must have {_BOUNDS[found[2]]} {found[3]} {_PARTS[found[1]]}"
    if found := _RANGE.match(text):
        return float(found[2]), f"must be {_BOUNDS[found[1]]} {float(found[2]):g}"
    if found := _PATTERN.match(text):
        return found[1], f"must match {found[1]}"
    return None, "must be a finite number" if text == "Number out of range" else text


@cache
def _choices(kind: Any) -> str:
    """Returns the values of a Literal or of an enum, as a sentence lists them; empty for another type."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _choices(get_args(kind)[0])
    if origin in (Union, UnionType):
        return next(filter(None, map(_choices, get_args(kind))), "")
    if origin is Literal:
        *others, last = map(repr, get_args(kind))
    elif isinstance(kind, type) and issubclass(kind, Enum):
        *others, last = (repr(one.value) for one in kind)
    else:
        return ""
    return f"{', '.join(others)} or {last}" if others else last
