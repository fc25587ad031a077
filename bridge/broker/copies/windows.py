"""Chooses which copies travel in one bundle: those whose moments lie near each other, relative to what is left. Pure.

A bundle leaves the wheel for its earliest copy. The others have to wait on then, most of them in a further bundle. So
the later a copy is due, the wider its window may be. Windows are an octave wide: from 32 to 64 seconds ahead, from 64
to 128. A copy halves what is left of its delay with each bundle, and a day takes 17 of them at most. Many copies fill
narrower windows, and then they take fewer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

NEAR_MS: Final = 1_000
"""Copies that are due within this time share a window, the narrowest octave."""

_FILLED: Final = 64  # copies; half a window is worth a bundle of its own if it may hold half as many
_NARROWEST: Final = 8  # parts of what is left: a narrower window saves hardly a bundle


def windows(left_ms: Sequence[float]) -> Iterator[list[int]]:
    """Yields the indexes of the copies of each window, the earliest first. `left_ms`: what is left of each delay."""
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
    """Yields the parts of a window that ends at `until_ms`: halves of halves, as long as they are filled."""
    from_ms = moments[start]
    if end - start <= _FILLED or (moments[end - 1] - from_ms) * _NARROWEST <= from_ms:
        yield start, end
        return
    middle_ms = (from_ms + until_ms) / 2
    middle = bisect_left(moments, middle_ms, start + 1, end)
    yield from _filled(moments, start, middle, middle_ms)
    if middle < end:
        yield from _filled(moments, middle, end, until_ms)
