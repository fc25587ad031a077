"""Counts waiting messages by when they are due: bins for three charts, of the next minute, hour and day. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

BINS: Final = 12
_SPANS_MS: Final = (60_000, 3_600_000, 86_400_000)

EDGES_MS: Final = tuple(span_ms // BINS * (at + 1) for span_ms in _SPANS_MS for at in range(BINS))
"""The upper bounds of all bins, in ms from now: twelve of the minute, then of the hour, then of the day. They ascend:
the minute's last bound (60 s) is below the hour's first one (5 min)."""


@dataclass(frozen=True, slots=True)
class DueBins:
    """The numbers of waiting messages: overdue, due in each twelfth of the next minute, hour and day, and due later."""

    overdue: int
    minute: list[int]
    hour: list[int]
    day: list[int]
    later: int


def due_bins(by_due: Sequence[int]) -> DueBins:
    """Returns the bins of waiting messages. `by_due`: first the number of overdue messages. Then, for each edge of
    `EDGES_MS`, the number of messages due before this edge and not before the previous edge. Last, the number of
    messages due later than all edges.

    The hour's first bin includes the whole minute, and the day's first bin includes the whole hour.
    """
    overdue, *before_edges, later = by_due
    minute, hour, day = (before_edges[at : at + BINS] for at in range(0, len(before_edges), BINS))
    hour[0] += sum(minute)
    day[0] += sum(hour)
    return DueBins(overdue, minute, hour, day, later)


def summed(parts: Sequence[DueBins]) -> DueBins:
    """Returns the sums of the bins of several topics."""
    return DueBins(
        overdue=sum(part.overdue for part in parts),
        minute=_columns([part.minute for part in parts]),
        hour=_columns([part.hour for part in parts]),
        day=_columns([part.day for part in parts]),
        later=sum(part.later for part in parts),
    )


def _columns(rows: Sequence[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)] if rows else [0] * BINS
