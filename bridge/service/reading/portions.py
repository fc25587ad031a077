"""Splits the reading of stored bodies into portions of limited bytes, so that a process needs little memory. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

PORTION_BYTES: Final = 8 * 1024 * 1024


def portions(sizes: Sequence[int], most_bytes: int = PORTION_BYTES) -> Iterator[slice]:
    """Splits items into portions of at most `most_bytes` each. A larger item is a portion by itself.

    `sizes`: the bytes of each item. Yields the slice of each portion, in order.
    """
    start = total = 0
    for at, size in enumerate(sizes):
        if total + size > most_bytes and at > start:
            yield slice(start, at)
            start, total = at, 0
        total += size
    if start < len(sizes):
        yield slice(start, len(sizes))
