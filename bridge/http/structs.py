"""Defines the base types of requests and answers: structs, and scalar types with validators of their own."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Refused(ValueError):
    """A validator refuses a value. `limit`: the limit that the value breaks, as the answer shows it. `fields`: the
    names of fields that are wrong together. Without names, the field that was read is wrong, or the whole request.
    `is_secret`: an answer must not repeat the value."""

    def __init__(self, limit: Any, message: str, *fields: str, is_secret: bool = False) -> None:
        super().__init__(message)
        self.limit = limit
        self.fields = fields
        self.is_secret = is_secret


class Answer(Struct, gc=False):
    """The base of all objects in answers."""


class Request(Struct, forbid_unknown_fields=True, gc=False):
    """The base of all request bodies and queries. An unknown field is refused. Null counts as not given, except in a
    message's body."""


class Scalar(type):
    """The metaclass of field types that have a validator and a JSON schema of their own. Only the type checker sees a
    value as an instance of such a type. At run time it is a plain `int`, `str` or the like, which every library knows.
    """

    def __instancecheck__(cls, instance: object) -> bool:
        return True  # msgspec asks this about what `read` returned

    def read(cls, value: Any) -> Any:
        """Validates a value, and returns it converted to the field's plain type. Raises Refused if the value breaks a
        limit."""
        raise NotImplementedError

    def schema(cls) -> dict[str, Any]:
        raise NotImplementedError


def default(value: Any) -> Any:
    """Returns the value unchanged. Its type is `Any`, so a plain value can be the default of a field with a scalar
    type."""
    return value
