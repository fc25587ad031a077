"""Turns the errors of pydantic into field errors: path, value, limit, and a sentence in plain words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from bridge.model.errors import FieldError, InvalidRequest

WHOLE = "request"  # the field of an error that is about the whole request
_MOST_PARTS = 256  # of a value in an error: an answer shows 200 characters
_MOST_FIELDS = 100  # each unknown field makes an error, and a request has room for a million fields

Model = TypeVar("Model", bound=BaseModel)
_Context = Mapping[str, Any]

_TYPES = {
    "int_type": "an integer",
    "float_type": "a number",
    "string_type": "a string",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
_LIMITS: Mapping[str, tuple[str, Callable[[_Context], str]]] = {
    "greater_than_equal": ("ge", lambda c: f"must be at least {c['ge']}"),
    "less_than_equal": ("le", lambda c: f"must be at most {c['le']}"),
    "string_too_long": ("max_length", lambda c: f"must have at most {c['max_length']} characters"),
    "string_too_short": ("min_length", lambda c: f"must have at least {c['min_length']} characters"),
    "too_long": ("max_length", lambda c: f"must have at most {c['max_length']} entries"),
    "too_short": ("min_length", lambda c: f"must have at least {c['min_length']} entries"),
    "string_pattern_mismatch": ("pattern", lambda c: f"must match {c['pattern']}"),
    "literal_error": ("expected", lambda c: f"must be {c['expected']}"),
    "finite_number": ("", lambda _: "must be a finite number"),
}


def parse(model: type[Model], value: Any, *, under: str = "") -> Model:
    """Checks a value by the model, and returns the model's instance.

    Args:
        under: the start of every field's path in errors, such as `"messages.3."`.

    Raises:
        InvalidRequest: the value is wrong; the error lists every wrong field.
    """
    if isinstance(value, Mapping) and len(value) > _MOST_FIELDS:
        message = f"must have at most {_MOST_FIELDS} fields"
        raise InvalidRequest.of(under.rstrip(".") or WHOLE, len(value), _MOST_FIELDS, message)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = field_errors(error.errors(include_url=False), known=tuple(model.model_fields))
        refused = [renamed(field_error, under) for field_error in found]
    # Not within the `except`: this error would keep pydantic's error, which keeps the whole value.
    raise InvalidRequest(*refused)


def renamed(error: FieldError, under: str) -> FieldError:
    """Returns the error with a longer name of its field: `under`, then the former name."""
    field = under.rstrip(".") if under and error.field == WHOLE else under + error.field
    return FieldError(field=field, value=error.value, limit=error.limit, message=error.message)


def field_errors(errors: Iterable[Mapping[str, Any]], *, known: Sequence[str] = ()) -> Iterator[FieldError]:
    """Yields field errors for the errors of pydantic or FastAPI.

    Args:
        known: the valid names at the top level. An error about an unknown field there lists them as its limit.
    """
    for error in errors:
        kind, context = error["type"], error.get("ctx", {})
        # A validator of secrets sets it to None. Only what an answer shows is kept: the whole value may be large.
        whole = context.get("value", error.get("input"))
        value = _cut(whole)
        # A segment in angle brackets is a tag of a union. The client did not write it.
        path = [str(part) for part in error["loc"] if not str(part).startswith("<")]
        field = ".".join(path) or WHOLE
        if "fields" in context:
            for name in context["fields"]:
                given = _cut(whole.get(name)) if isinstance(whole, Mapping) else None
                yield FieldError(field=name, value=given, limit=context["limit"], message=error["msg"])
        elif kind == "missing":
            yield FieldError(field=field, value=None, limit=None, message="is required")
        elif kind == "extra_forbidden":
            allowed = list(known) if len(path) == 1 and known else None
            yield FieldError(
                field=field, value=value, limit=allowed, message="is unknown: remove it or correct its name"
            )
        elif kind in _TYPES:
            yield FieldError(field=field, value=value, limit=_TYPES[kind], message=f"must be {_TYPES[kind]}")
        elif kind in _LIMITS:
            key, sentence = _LIMITS[kind]
            yield FieldError(field=field, value=value, limit=context.get(key), message=sentence(context))
        else:
            yield FieldError(field=field, value=value, limit=context.get("limit"), message=error["msg"])


def _cut(value: Any) -> Any:
    """Returns the value; of a large value only the beginning, which is still more than an answer shows."""
    left = _MOST_PARTS

    def begin(part: Any) -> Any:
        nonlocal left
        left -= 1
        if isinstance(part, str):
            return part[:_MOST_PARTS]
        if isinstance(part, list):
            return [begin(one) for one in islice(part, _MOST_PARTS) if left > 0]
        if isinstance(part, dict):
            return {name: begin(one) for name, one in islice(part.items(), _MOST_PARTS) if left > 0}
        return part

    beginning = begin(value)
    return beginning if left <= 0 or isinstance(value, str) else value
