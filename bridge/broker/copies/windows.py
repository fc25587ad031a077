"""Chooses which copies travel in one bundle: copies whose due moments lie in one window. Pure.

A bundle leaves the wheel when its earliest copy is due. The other copies have to wait longer, most of them in a new
bundle. So the later copies are due, the wider their window may be. Windows are an octave wide: from 32 to 64 seconds
ahead, from 64 to 128, and so on. With each bundle, at least half of the rest of a copy's delay passes. So a day takes
at most 17 bundles. A window with many copies is halved, so that each copy passes through fewer bundles.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

NEAR_MS: Final = 1_000
"""The narrowest window, in ms: all copies that are due within this time from now share it."""

_FILLED: Final = 64  # a window with more copies is halved, so that each half gets its own bundles
_NARROWEST: Final = 8  # a window is not halved below this fraction (1/8) of what is left: that saves hardly a bundle


def windows(left_ms: Sequence[float]) -> Iterator[list[int]]:
    """Yields for each window the indexes of its copies, the earliest first. `left_ms`: the rest of each copy's delay,
    in ms."""
    indexes = sorted(range(len(left_ms)), key=left_ms.__getitem__)
    moments = [left_ms[index] for index in indexes]
    start = 0
    while start < len(indexes):
        octave = int(max(0.0, moments[start]) / NEAR_MS).bit_length()
        until_ms = float(NEAR_MS << octave)
        end = bisect_left(moments, until_ms, start)
        for first, last in _filled(moments, start, end, until_ms):
            yield indexes[first:last]
        start = end


def _filled(moments: Sequence[float], start: int, end: int, until_ms: float) -> Iterator[tuple[int, int]]:
    """Yields the parts of a window: the index of each part's first copy, and the index behind its last copy. Halves the
    window, and the halves, while they hold many copies. `until_ms`: the end of the window."""
    from_ms = moments[start]
    if end - start <= _FILLED or (moments[end - 1] - from_ms) * _NARROWEST <= from_ms:
        yield start, end
        return
    middle_ms = (from_ms + until_ms) / 2
    middle = bisect_left(moments, middle_ms, start + 1, end)
    yield from _filled(moments, start, middle, middle_ms)
    if middle < end:
        yield from _filled(moments, middle, end, until_ms)
