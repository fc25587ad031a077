"""Defines spans: the periods that backfills have covered. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """A period from one moment to another, both included. Moments are Unix ms."""

    from_ms: int
    to_ms: int


def added(spans: Iterable[Span], span: Span) -> tuple[Span, ...]:
    """Returns the spans with a further one, sorted. Joins spans that overlap or touch."""
    joined: list[Span] = []
    for each in sorted([*spans, span]):
        if joined and each.from_ms <= joined[-1].to_ms + 1:
            joined[-1] = Span(joined[-1].from_ms, max(joined[-1].to_ms, each.to_ms))
        else:
            joined.append(each)
    return tuple(joined)


def covered(spans: Iterable[Span], at_ms: int) -> bool:
    """Whether a moment is within one of the spans."""
    return any(span.from_ms <= at_ms <= span.to_ms for span in spans)
