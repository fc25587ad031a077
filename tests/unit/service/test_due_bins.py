"""Tests the bins of waiting messages by due moment."""

from __future__ import annotations

from bridge.service.pools.due_bins import BINS, EDGES_MS, DueBins, due_bins, summed


def test_edges_ascend_and_end_each_span() -> None:
    assert list(EDGES_MS) == sorted(set(EDGES_MS))
    assert EDGES_MS[BINS - 1 :: BINS] == (60_000, 3_600_000, 86_400_000)


def test_the_hour_begins_with_the_minute_and_the_day_with_the_hour() -> None:
    bins = due_bins([7, *[1] * BINS, *[10] * BINS, *[100] * BINS, 5])
    assert (bins.overdue, bins.later) == (7, 5)
    assert bins.minute == [1] * BINS
    assert bins.hour == [22, *[10] * (BINS - 1)]
    assert bins.day == [232, *[100] * (BINS - 1)]


def test_sums_of_topics_and_of_none() -> None:
    one = DueBins(1, [1] * BINS, [2] * BINS, [3] * BINS, 4)
    assert summed([one, one]) == DueBins(2, [2] * BINS, [4] * BINS, [6] * BINS, 8)
    assert summed([]) == DueBins(0, [0] * BINS, [0] * BINS, [0] * BINS, 0)
