"""Matches texts with patterns in which `*` is any number of any characters. Pure."""

from __future__ import annotations

from typing import Final

ANY: Final = "*"


def matches(pattern: str, text: str) -> bool:
    """Whether the whole text matches the pattern. The function searches the text once for each `*`."""
    first, *middle = pattern.split(ANY)
    if not middle:
        return text == pattern
    last = middle.pop()
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
