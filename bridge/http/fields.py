"""What pydantic finds wrong, as field errors: path, value given, limit, and a sentence in plain words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from bridge.model.errors import FieldError, InvalidRequest

WHOLE = "request"  # the field named when it is the request as a whole that is wrong
_MOST_FIELDS = 100  # each that is unknown costs an error, and a request has room for a million

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
    """The value as the model.

    Args:
        under: what the path of every field starts with, such as `"messages.3."`.

    Raises:
        InvalidRequest: with every field that is wrong.
    """
    if isinstance(value, Mapping) and len(value) > _MOST_FIELDS:
        message = f"must have at most {_MOST_FIELDS} fields"
        raise InvalidRequest.of(under.rstrip(".") or WHOLE, len(value), _MOST_FIELDS, message)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = field_errors(error.errors(include_url=False), known=tuple(model.model_fields))
        raise InvalidRequest(*(renamed(one, under) for one in found)) from None


def renamed(error: FieldError, under: str) -> FieldError:
    """The error with its field's path set under another."""
    field = under.rstrip(".") if under and error.field == WHOLE else under + error.field
    return FieldError(field=field, value=error.value, limit=error.limit, message=error.message)


def field_errors(errors: Iterable[Mapping[str, Any]], *, known: Sequence[str] = ()) -> Iterator[FieldError]:
    """
    Args:
        known: the names that an unknown field at the top could have been.
    """
    for error in errors:
        kind, context = error["type"], error.get("ctx", {})
        value = context.get("value", error.get("input"))  # a secret is not given back
        # A segment in angle brackets is the name of a union's branch: no part of what the caller wrote.
        path = [str(part) for part in error["loc"] if not str(part).startswith("<")]
        field = ".".join(path) or WHOLE
        if "fields" in context:
            for name in context["fields"]:
                given = value.get(name) if isinstance(value, Mapping) else None
                yield FieldError(field=name, value=given, limit=context["limit"], message=error["msg"])
        elif kind == "missing":
            yield FieldError(field=field, value=None, limit=None, message="is required")
        elif kind == "extra_forbidden":
            allowed = list(known) if len(path) == 1 and known else None
            yield FieldError(field=field, value=value, limit=allowed, message="there is no such field")
        elif kind in _TYPES:
            yield FieldError(field=field, value=value, limit=_TYPES[kind], message=f"must be {_TYPES[kind]}")
        elif kind in _LIMITS:
            key, sentence = _LIMITS[kind]
            yield FieldError(field=field, value=value, limit=context.get(key), message=sentence(context))
        else:
            yield FieldError(field=field, value=value, limit=context.get("limit"), message=error["msg"])
