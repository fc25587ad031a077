"""Splits a JSON array into its elements without parsing them, so that a reader can parse one at a time. Pure."""

from __future__ import annotations

import re
from typing import Final

from bridge.http.errors import TooManyValues
from bridge.http.json_bounds import MOST_BYTES

SPACE: Final = b" \t\r\n"

_MOST_BRACKETS: Final = 500_000  # each takes a third of a microsecond
_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TO_END: Final = re.compile(rb'(?:[^"\[\]{},]++|' + _STRING + rb")*+", re.DOTALL)
_TO_BRACKET: Final = re.compile(rb'(?:[^"\[\]{}]++|' + _STRING + rb")*+", re.DOTALL)


class NoArray(ValueError):
    """The array does not end, or its brackets or quotes are unbalanced."""


class TooManyElements(Exception):
    """The array has more elements than the caller allows."""


def elements(document: bytes, at: int, *, most: int) -> tuple[list[tuple[int, int]], int]:
    """Finds the elements of an array in a document. Returns the offsets at which each element begins and ends, and the
    offset behind the array. Offsets are in bytes. An element may be invalid JSON.

    Args:
        at: the offset behind the array's opening bracket.
        most: how many elements the array may have at most.

    Raises:
        NoArray: the array does not end, or its brackets or quotes are unbalanced.
        TooManyElements: the array has more than `most` elements.
        TooManyValues: there are more than half a million opening brackets.
    """
    found: list[tuple[int, int]] = []
    start, depth, brackets = at, 0, 0
    while True:
        passed = (_TO_BRACKET if depth else _TO_END).match(document, at)
        assert passed is not None  # the pattern also matches an empty text
        at = passed.end()
        character = document[at : at + 1]
        at += 1
        if character in {b"[", b"{"}:
            depth, brackets = depth + 1, brackets + 1
            if brackets > _MOST_BRACKETS:
                raise TooManyValues(MOST_BYTES)
        elif depth and character in {b"]", b"}"}:
            depth -= 1
        elif character in {b",", b"]"}:
            if character == b"]" and not found and not document[start : at - 1].strip(SPACE):
                return [], at
            if len(found) == most:
                raise TooManyElements
            found.append((start, at - 1))
            if character == b"]":
                return found, at
            start = at
        else:
            raise NoArray
