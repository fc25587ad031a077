"""Defines the filter of a search, or of an action on many messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from bridge.model import globs
from bridge.model.labels import NO_LABELS, Labels
from bridge.model.message import SHOWN_STATES, State

_BY_LABEL = {state.label: state for state in SHOWN_STATES}
_ENDED_BADLY = (State.EXPIRED, State.DEAD)


class Order(StrEnum):
    """The order of results: by due moment, then topic, then id; ascending or descending."""

    ASC = "asc"
    DESC = "desc"


class Found(NamedTuple):
    """A message as an index describes it. The message may have changed since."""

    topic: str
    id: str
    due_ms: int
    state: State


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """The messages that a search or a bulk action is about: those that match all fields. A field that is None or empty
    matches every message; `reason` and `reason_pattern` are exceptions.

    `topic`: a name, or a glob. `due_after_ms`, `due_before_ms`: Unix milliseconds; both bounds are exclusive. `labels`:
    the message must have all of them. `reason`: the whole reason; '' matches only messages without one.
    `reason_pattern`: a glob. If one of these two is set and `states` is empty, only expired and dead messages match.
    """

    topic: str | None = None
    states: tuple[State, ...] = ()
    due_after_ms: int | None = None
    due_before_ms: int | None = None
    id_prefix: str = ""
    labels: Labels = field(default_factory=dict)
    reason: str | None = None
    reason_pattern: str | None = None

    @property
    def one_topic(self) -> str | None:
        """The name of the topic, if the filter names one; None for a glob, and without a topic."""
        return None if self.topic is None or globs.ANY in self.topic else self.topic

    @property
    def wanted_states(self) -> tuple[State, ...]:
        return self.states or (_ENDED_BADLY if self.asks_for_reason else SHOWN_STATES)

    @property
    def asks_for_reason(self) -> bool:
        return self.reason is not None or self.reason_pattern is not None

    def takes_topic(self, topic: str) -> bool:
        return self.topic is None or globs.matches(self.topic, topic)

    def takes_reason(self, reason: str) -> bool:
        return (self.reason is None or self.reason == reason) and (
            self.reason_pattern is None or globs.matches(self.reason_pattern, reason)
        )


def to_json(wanted: Filter) -> dict[str, Any]:
    """Returns the filter as a value for JSON, without the fields that match every message. Moments are Unix
    milliseconds."""
    parts = {
        "topic": wanted.topic,
        "state": [state.label for state in wanted.states] or None,
        "due_after": wanted.due_after_ms,
        "due_before": wanted.due_before_ms,
        "id_prefix": wanted.id_prefix or None,
        "labels": dict(wanted.labels) or None,
        "reason": wanted.reason,
        "reason_pattern": wanted.reason_pattern,
    }
    return {name: part for name, part in parts.items() if part is not None}


def of_json(parts: Mapping[str, Any]) -> Filter:
    """Reads the value that `to_json` returned."""
    return Filter(
        topic=parts.get("topic"),
        states=tuple(_BY_LABEL[name] for name in parts.get("state", ())),
        due_after_ms=parts.get("due_after"),
        due_before_ms=parts.get("due_before"),
        id_prefix=parts.get("id_prefix", ""),
        labels=parts.get("labels", NO_LABELS),
        reason=parts.get("reason"),
        reason_pattern=parts.get("reason_pattern"),
    )
