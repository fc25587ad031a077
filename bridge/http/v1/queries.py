"""What callers send in queries. An unknown parameter is refused, as an unknown field is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import unquote

from pydantic import BeforeValidator, Field, PlainValidator, StrictStr, WithJsonSchema

from bridge.http.v1.requests import Request
from bridge.http.v1.scalars import QueryInstant, refused, whole_number
from bridge.model.message import SHOWN_STATES, State

_STATES = {state.label: state for state in SHOWN_STATES}


def read(query: bytes) -> dict[str, Any]:
    """The parameters: text, or a list of texts for one that is given again.

    A plus sign is a plus sign: offsets of instants have one, and no value has a space.
    """
    given: dict[str, Any] = {}
    for part in query.decode("latin-1").split("&") if query else ():
        name, _, value = (unquote(piece) for piece in part.partition("="))
        given[name] = value if name not in given else [*_listed(given[name]), value]
    return given


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _states(value: Any) -> tuple[State, ...]:
    names = [name for text in _listed(value) for name in text.split(",") if name]
    for name in names:
        if name not in _STATES:
            raise refused(list(_STATES), f"{name[:100]!r} is none of {', '.join(_STATES)}")
    return tuple(_STATES[name] for name in names)


# The limits lie outside of the validator, so that a problem gives back the text as it was given; a schema is told them.
Count = Annotated[
    int,
    BeforeValidator(whole_number),
    Field(strict=True, ge=1, le=1_000),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 1_000}),
]
Flag = Annotated[Literal["true", "false"], Field()]
_STATES_SCHEMA: Mapping[str, Any] = {"type": "array", "items": {"type": "string", "enum": list(_STATES)}}


class NoQuery(Request):
    pass


class PageQuery(Request):
    limit: Count = 100
    cursor: Annotated[StrictStr | None, Field(description="`next_cursor` of the page before")] = None


class ListQuery(PageQuery):
    state: Annotated[
        tuple[State, ...],
        PlainValidator(_states),
        WithJsonSchema({**_STATES_SCHEMA, "description": "given again, or separated by commas; none: all"}),
    ] = ()
    due_after: QueryInstant | None = None
    due_before: QueryInstant | None = None


class DeleteQuery(Request):
    release: Annotated[Flag, Field(description="free all but the tombstone")] = "false"


class DropQuery(Request):
    max: Count = 100


class RemoveQuery(Request):
    force: Annotated[Flag, Field(description="with its messages")] = "false"
