"""Reads requests: JSON and query parameters become structs. A refusal names every wrong field, its value and its limit.

msgspec checks a whole request at once, and ends at the first fault. So a request with a fault is read once more, field
by field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from bridge.http.errors import BrokenJSON
from bridge.http.exact_json import TOO_DEEP
from bridge.http.faults import WHOLE, faults, missing, shown, unknown
from bridge.http.json_bounds import LARGE_BYTES, weigh
from bridge.model.errors import FieldError, InvalidRequest

_MOST_FIELDS: Final = 100  # each unknown field makes an error, and a request has room for a million fields

Model = TypeVar("Model", bound=Struct)
_One = Callable[[Any, Any], Any]


def read(kind: type[Model], document: bytes) -> Model:
    """Returns a JSON document as a struct of the type `kind`.

    Raises:
        BrokenJSON: the document is not JSON.
        InvalidRequest: the error lists every wrong field.
        TooManyValues: reading the document would take too much memory.
    """
    try:
        if len(document) > LARGE_BYTES and len(document) - _length_of_body(document) > LARGE_BYTES:
            weigh(document)
        if not document.isascii():
            document.decode()  # msgspec does not check the strings of `Raw` values
        try:
            found: Model = _decoder(kind).decode(document)
        except msgspec.ValidationError:
            wrong = _wrong(kind, document, _members(document), _decoded)
        else:
            return found
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BrokenJSON(f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise BrokenJSON(TOO_DEEP) from None
    # Not within the `except`: this error would keep msgspec's error, which keeps the whole value.
    raise InvalidRequest(*wrong)


def read_query(kind: type[Model], params: Mapping[str, str | list[str]]) -> Model:
    """Returns query parameters as a struct of the type `kind`. `params`: the parameters by name; a repeated parameter
    is a list.

    Raises:
        InvalidRequest: the error lists every wrong field.
    """
    try:
        found: Model = _converted(kind, params)
    except msgspec.ValidationError:
        pass
    else:
        return found
    raise InvalidRequest(*_wrong(kind, params, params, _converted))


def renamed(error: FieldError, under: str) -> FieldError:
    """Returns the error with `under`, such as `messages.3.`, in front of its field's name. If the error is about the
    whole request, its field becomes `under` without the final dot."""
    field = under.rstrip(".") if under and error.field == WHOLE else under + error.field
    return FieldError(field=field, value=error.value, limit=error.limit, message=error.message)


class _Body(Struct):
    body: Raw = Raw(b"")


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=_scalar)


def _scalar(kind: Any, value: Any) -> Any:
    return kind.read(value)


def _decoded(kind: Any, value: Raw | bytes) -> Any:
    return _decoder(kind).decode(value)


def _converted(kind: Any, value: Any) -> Any:
    return msgspec.convert(value, kind, strict=False, dec_hook=_scalar)


def _length_of_body(document: bytes) -> int:
    """Returns the length of the member `body`, in bytes. Creates no Python objects from the values in the document."""
    try:
        return len(memoryview(_decoder(_Body).decode(document).body))
    except msgspec.ValidationError:
        return 0


def _members(document: bytes) -> Mapping[str, Raw]:
    """Returns the fields of a JSON object.

    Raises:
        InvalidRequest: the document is not a JSON object.
    """
    value = _decoder(Raw).decode(document)
    try:
        members: Mapping[str, Raw] = _decoder(dict[str, Raw]).decode(document)
    except msgspec.ValidationError:
        raise InvalidRequest.of(WHOLE, shown(value), "an object", "must be an object") from None
    return members


def _wrong(kind: type[Struct], request: Any, given: Mapping[str, Any], one: _One) -> list[FieldError]:
    """Returns every fault of a request. `given`: the request's fields by name. `one(type, value)`: reads a field or the
    whole request, and raises ValidationError at the first fault."""
    if len(given) > _MOST_FIELDS:
        message = f"must have at most {_MOST_FIELDS} fields"
        return [FieldError(field=WHOLE, value=len(given), limit=_MOST_FIELDS, message=message)]
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    found: list[FieldError] = []
    for name, field in fields.items():
        if name in given:
            try:
                one(field.type, given[name])
            except msgspec.ValidationError as error:
                found += faults(error, given, name, field.type)
        elif field.required:
            found.append(missing(name))
    found += [unknown(given, [name], list(fields)) for name in given if name not in fields]
    if not found:
        try:
            one(kind, request)
        except msgspec.ValidationError as error:
            found += faults(error, given, "", kind)
    return found
