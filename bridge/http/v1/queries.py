"""Defines the query parameters. An unknown parameter is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import unquote

from pydantic import BeforeValidator, Field, PlainValidator, StrictStr, WithJsonSchema

from bridge.http.v1.requests import Request
from bridge.http.v1.scalars import QueryInstant, Topic, refused, whole_number
from bridge.model.message import SHOWN_STATES, State

_STATES = {state.label: state for state in SHOWN_STATES}


def read(query: bytes) -> dict[str, Any]:
    """The parameters by name: a text, or a list of texts for a parameter that is repeated.

    A plus sign is not decoded to a space: an instant's offset has one, and no value has a space.
    """
    params: dict[str, Any] = {}
    for part in query.decode("latin-1").split("&") if query else ():
        name, _, value = (unquote(piece) for piece in part.partition("="))
        params[name] = value if name not in params else [*_listed(params[name]), value]
    return params


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _states(value: Any) -> tuple[State, ...]:
    names = [name for text in _listed(value) for name in text.split(",") if name]
    for name in names:
        if name not in _STATES:
            raise refused(list(_STATES), f"has no state {name[:100]!r}; the states are {', '.join(_STATES)}")
    return tuple(_STATES[name] for name in names)


# `Field` follows the validator, so that pydantic's error has the text the client sent. The schema then needs the limits
# explicitly.
Count = Annotated[
    int,
    BeforeValidator(whole_number),
    Field(strict=True, ge=1, le=1_000),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 1_000}),
]
Flag = Annotated[Literal["true", "false"], Field()]
_STATES_SCHEMA: Mapping[str, Any] = {"type": "array", "items": {"type": "string", "enum": list(_STATES)}}


class NoQuery(Request):
    """No parameters."""


class PageQuery(Request):
    limit: Annotated[Count, Field(description="The most items of the page")] = 100
    cursor: Annotated[
        StrictStr | None, Field(description="`next_cursor` of the page before; without it, the first page")
    ] = None


class ActionsQuery(PageQuery):
    topic: Annotated[Topic | None, Field(description="Only actions on this topic, which may be gone")] = None


class ListQuery(PageQuery):
    state: Annotated[
        tuple[State, ...],
        PlainValidator(_states),
        WithJsonSchema(
            {
                **_STATES_SCHEMA,
                "description": "Repeat the parameter or separate states by commas. Without it: all states",
            }
        ),
    ] = ()
    due_after: QueryInstant | None = None
    due_before: QueryInstant | None = None


class DeleteQuery(Request):
    release: Annotated[
        Flag, Field(description="`true`: also delete the stored body and headers; only a tombstone is left")
    ] = "false"


class DropQuery(Request):
    max: Annotated[Count, Field(description="The most dead letters to delete")] = 100


class RemoveQuery(Request):
    force: Annotated[Flag, Field(description="`true`: also delete the topic's messages")] = "false"
