"""Writes a number with its noun, for output."""

from __future__ import annotations


def counted(n: int, plural: str) -> str:
    """As `counted(2, "messages")`: "2 messages", and with 1 "1 message". A word without a plural s stays as it is."""
    return f"{n:,} {plural.removesuffix('s') if n == 1 else plural}"
