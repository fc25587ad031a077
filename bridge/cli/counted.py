"""Writes a number with its noun, for output."""

from __future__ import annotations


def counted(n: int, plural: str) -> str:
    """Returns the number with its noun. `counted(2, "messages")` is "2 messages", with 1 it is "1 message". A word
    without a plural s stays as it is."""
    return f"{n:,} {plural.removesuffix('s') if n == 1 else plural}"
