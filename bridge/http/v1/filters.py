"""Defines how requests describe messages: as query parameters for a search, as an object for an action on many."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field, PlainValidator, StrictStr, WithJsonSchema

from bridge.http.v1.requests import Request
from bridge.http.v1.scalars import TOPIC_FORM, Instant, refused
from bridge.model.filter import Filter
from bridge.model.globs import ANY
from bridge.model.labels import (
    LABEL_KEY_PATTERN,
    LONGEST_VALUE,
    MOST_LABELS,
    NO_LABELS,
    Labels,
    valid_key,
    valid_value,
)
from bridge.model.message import SHOWN_STATES, State, valid_topic

_STATES = {state.label: state for state in SHOWN_STATES}
_GLOB_PATTERN: Final = r"^[A-Za-z0-9_.*/-]{1,201}$"
_GLOB = re.compile(_GLOB_PATTERN[:-1] + r"\Z")
_PREFIX_PATTERN: Final = r"^[ -.0-~]{0,216}$"  # printable ASCII without "/"; as long as the longest id
_KEY_FORM: Final = "1-40 characters from a-z 0-9 _ . -"
_VALUE_FORM: Final = f"at most {LONGEST_VALUE} characters, none of them a control character"


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _states(value: Any) -> tuple[State, ...]:
    names = [name for text in listed(value) for name in (text.split(",") if isinstance(text, str) else [text]) if name]
    for name in names:
        if not isinstance(name, str) or name not in _STATES:
            raise refused(list(_STATES), f"has no state {str(name)[:100]!r}; the states are {', '.join(_STATES)}")
    return tuple(dict.fromkeys(_STATES[name] for name in names))


def _topic_glob(value: Any) -> str:
    if isinstance(value, str) and (valid_topic(value) or (ANY in value and _GLOB.match(value))):
        return value
    raise refused(_GLOB_PATTERN, f"{TOPIC_FORM}; or a pattern of these characters, in which * is any text")


def _labels(value: Any) -> Labels:
    if not isinstance(value, Mapping):
        raise refused("an object", "must be an object whose values are strings")
    if len(value) > MOST_LABELS:
        raise refused(MOST_LABELS, f"has {len(value)} labels; at most {MOST_LABELS} are allowed")
    for key, text in value.items():
        _check_label(key, text)
    return dict(value)


def _queried_labels(value: Any) -> Labels:
    found: dict[str, str] = {}
    for pair in listed(value):
        key, colon, text = pair.partition(":")
        if not colon:
            raise refused("key:value", f"must be key:value, as in customer:42, not {pair[:150]!r}")
        if found.get(key, text) != text:
            raise refused("one value a key", f"asks for two values of {key!r}, and a message has at most one")
        found[key] = text
    return _labels(found)


def _check_label(key: str, text: Any) -> None:
    if not valid_key(key):
        raise refused(_KEY_FORM, f"the key {key[:60]!r} must be {_KEY_FORM}")
    if not isinstance(text, str) or not valid_value(text):
        raise refused(_VALUE_FORM, f"the value of {key} must be a string of {_VALUE_FORM}")


_LABELS_SCHEMA: Final = {
    "type": "object",
    "maxProperties": MOST_LABELS,
    "propertyNames": {"pattern": LABEL_KEY_PATTERN},
    "additionalProperties": {"type": "string", "maxLength": LONGEST_VALUE},
}

States = Annotated[
    tuple[State, ...],
    PlainValidator(_states),
    WithJsonSchema({"type": "array", "items": {"type": "string", "enum": list(_STATES)}}),
]
GivenLabels = Annotated[Labels, PlainValidator(_labels), WithJsonSchema(_LABELS_SCHEMA)]
QueriedLabels = Annotated[
    Labels,
    PlainValidator(_queried_labels),
    WithJsonSchema(
        {"type": "array", "maxItems": MOST_LABELS, "items": {"type": "string", "pattern": "^[a-z0-9_.-]{1,40}:"}}
    ),
]
TopicGlob = Annotated[str, PlainValidator(_topic_glob), WithJsonSchema({"type": "string", "pattern": _GLOB_PATTERN})]
IdPrefix = Annotated[StrictStr, Field(pattern=_PREFIX_PATTERN)]
ReasonGlob = Annotated[StrictStr, Field(max_length=500)]


class FilterFields(Request):
    """Which messages a request is about. All fields must match. A field that is left out matches every message."""

    topic: Annotated[
        TopicGlob | None, Field(description="A topic, or a pattern in which `*` is any text: `shop/*`")
    ] = None
    state: Annotated[States, Field(description="Any of these states; without it, all")] = ()
    due_after: Instant | None = None
    due_before: Instant | None = None
    id_prefix: Annotated[IdPrefix | None, Field(description="How the id begins")] = None
    labels: Annotated[GivenLabels | None, Field(description="All of these labels")] = None
    reason: Annotated[
        ReasonGlob | None,
        Field(description="The reason of expired and dead messages; `*` is any text. Other states must be asked for"),
    ] = None

    def filter(self) -> Filter:
        """The same as a value."""
        return Filter(
            topic=self.topic,
            states=self.state,
            due_after_ms=self.due_after,
            due_before_ms=self.due_before,
            id_prefix=self.id_prefix or "",
            labels=self.labels or NO_LABELS,
            reason=self.reason,
        )
