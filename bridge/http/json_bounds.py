"""Limits the memory that parsing a JSON document takes, before a parser gets the document. Pure.

Each JSON value becomes a Python object. An empty JSON object takes three bytes as text and 64 bytes in memory: 15 MiB
of `{},{},…` took 500 MiB. So this module first counts the values, by the characters `{`, `[`, `:` and `,`.
"""

from __future__ import annotations

import re
from typing import Final

from bridge.http.errors import TooManyValues

LARGE_BYTES: Final = 1024 * 1024
"""A document of at most this size is not checked: its values never take more than `MOST_BYTES`."""

MOST_BYTES: Final = 48 * 1024 * 1024
"""The most memory that the values of one document may take. Strings take little more than their bytes, so their text
does not count."""

# What each character announces, in bytes of memory, measured with CPython 3.11: an object, a list, a member of an
# object, and any further value.
_COSTS: Final = ((b"{", 64), (b"[", 72), (b":", 170), (b",", 60))
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


def weigh(document: bytes) -> bytes:
    """Checks that parsing the document takes at most `MOST_BYTES` of memory, and returns the document unchanged.

    Raises:
        TooManyValues: parsing the document would take more than `MOST_BYTES`.
    """
    if len(document) > LARGE_BYTES and _cost(document, 0, len(document)) > MOST_BYTES and _is_beyond(document):
        raise TooManyValues(MOST_BYTES)
    return document


def _is_beyond(document: bytes) -> bool:
    """Whether the values take more than `MOST_BYTES`, if characters inside strings do not count. This check takes a
    microsecond for each string, and ends at the limit."""
    cost = at = 0
    for string in _STRING.finditer(document):
        cost += _cost(document, at, string.start())
        if cost > MOST_BYTES:
            return True
        at = string.end()
    return cost + _cost(document, at, len(document)) > MOST_BYTES


def _cost(document: bytes, start: int, end: int) -> int:
    return sum(document.count(character, start, end) * cost for character, cost in _COSTS)
