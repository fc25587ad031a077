"""Reads the timelines that scripts keep with records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from bridge.model.timeline import What
from bridge.store.messages.outcomes import TimelineAnswer
from bridge.store.replies import binary, text, whole

_VALUES: Final = 6
_WHATS: Final = tuple(What)  # by their codes, which begin with 1


class StoredTransition(NamedTuple):
    """A transition in a timeline; `lua/_record.lua` defines its fields. `at_ms` is in Unix ms."""

    what: What
    at_ms: int
    attempts: int
    number: int
    by: str
    reason: str


def transitions(outcome: TimelineAnswer) -> Iterator[StoredTransition]:
    """Yields the transitions in the outcome of `timeline`, the oldest first."""
    created_ms, values = outcome.found.created_ms, outcome.values
    for at in range(0, len(values), _VALUES):
        code, after_ms, attempts, number, by, reason = values[at : at + _VALUES]
        # A reason may be cut in the middle of a character.
        words = text(by), binary(reason).decode(errors="ignore")
        what, at_ms = _WHATS[whole(code) - 1], created_ms + whole(after_ms)
        yield StoredTransition(what, at_ms, whole(attempts), whole(number), *words)
