"""Defines how requests describe messages: as query parameters for a search, as an object for a bulk action."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from msgspec import Meta

from bridge.http.structs import Refused, Request, Scalar, default
from bridge.http.v1.contract.labels import GivenLabels
from bridge.http.v1.contract.scalars import TOPIC_FORM, Instant, listed
from bridge.model.filter import Filter
from bridge.model.labels import NO_LABELS
from bridge.model.message import SHOWN_STATES, TOPIC_PATTERN, State

_STATES = {state.label: state for state in SHOWN_STATES}
_GLOB_PATTERN: Final = rf"^(?:{TOPIC_PATTERN[1:-1]}|[A-Za-z0-9_./-]*\*[A-Za-z0-9_.*/-]*)$"
_LONGEST_GLOB: Final = 201
_GLOB = re.compile(_GLOB_PATTERN[:-1] + r"\Z")
_PREFIX_PATTERN: Final = r"^[ -.0-~]{0,216}$"  # printable ASCII without "/"; as long as the longest id


class States(tuple[State, ...], metaclass=Scalar):
    """The type of a field with states of messages. A request gives their names, in a list or with commas between
    them."""

    @classmethod
    def read(cls, value: Any) -> Any:
        names = [] if value is None else listed(value)
        split = [name for text in names for name in (text.split(",") if isinstance(text, str) else [text])]
        names = [name for name in split if name != ""]
        for name in names:
            if not isinstance(name, str) or name not in _STATES:
                message = f"has no state {str(name)[:100]!r}; the states are {', '.join(_STATES)}"
                raise Refused(list(_STATES), message)
        return tuple(dict.fromkeys(_STATES[name] for name in names))

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "string", "enum": list(_STATES)}}


class TopicGlob(str, metaclass=Scalar):
    """A topic's name, or a pattern of names in which `*` is any text."""

    @classmethod
    def read(cls, value: Any) -> Any:
        if isinstance(value, str) and len(value) <= _LONGEST_GLOB and _GLOB.match(value):
            return value
        raise Refused(_GLOB_PATTERN, f"{TOPIC_FORM}; or a pattern of these characters, in which * is any text")

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {"type": "string", "pattern": _GLOB_PATTERN, "maxLength": _LONGEST_GLOB}


IdPrefix = Annotated[str, Meta(pattern=_PREFIX_PATTERN)]
WholeReason = Annotated[str, Meta(max_length=500)]
ReasonGlob = Annotated[str, Meta(max_length=500)]


class FilterFields(Request):
    """The filter of the messages that a request is about. All fields must match. A field that is left out matches every
    message."""

    topic: Annotated[TopicGlob | None, Meta(description="A topic, or a pattern in which `*` is any text: `shop/*`")] = (
        None
    )
    state: Annotated[States, Meta(description="Any of these states; without it, all")] = default(())
    due_after: Instant | None = None
    due_before: Instant | None = None
    id_prefix: Annotated[IdPrefix | None, Meta(description="How the id begins")] = None
    labels: Annotated[GivenLabels | None, Meta(description="All of these labels")] = None
    reason: Annotated[
        WholeReason | None,
        Meta(description="The whole reason of expired and dead messages. Other states must be asked for"),
    ] = None
    reason_pattern: Annotated[
        ReasonGlob | None, Meta(description="As `reason`, but a pattern in which `*` is any text: `card *`")
    ] = None

    def filter(self) -> Filter:
        """Returns these fields as a `Filter`."""
        return Filter(
            topic=self.topic,
            states=self.state,
            due_after_ms=self.due_after,
            due_before_ms=self.due_before,
            id_prefix=self.id_prefix or "",
            labels=self.labels or NO_LABELS,
            reason=self.reason,
            reason_pattern=self.reason_pattern,
        )
