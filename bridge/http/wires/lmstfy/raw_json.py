"""Splits a JSON array into its elements, with the bytes of each element as the client wrote them."""

from __future__ import annotations

from json import JSONDecoder
from typing import Final, NoReturn

from bridge.http import json_elements
from bridge.http.json_bounds import weigh
from bridge.http.json_elements import SPACE, NoArray


class NotAnArray(ValueError):
    pass


def _refuse(constant: str) -> NoReturn:
    raise NotAnArray(constant)


# The decoder only finds whether an element is valid. Parsing numbers as text allows numbers of any length.
_DECODER: Final = JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse)


def elements(document: bytes, *, most: int) -> list[bytes]:
    """Returns the bytes of each element of a JSON array; an empty list for `null`. Parses one element at a time, to
    save memory. `most`: how many elements the array may have at most.

    Raises:
        NotAnArray: the document is neither an array nor `null`, or no valid JSON.
        TooManyElements: there are more than `most` elements.
        TooManyValues: reading an element would take too much memory.
    """
    begin = document.lstrip(SPACE)
    spans: list[tuple[int, int]] = []
    if begin.startswith(b"null"):
        end = len(b"null")
    elif begin.startswith(b"["):
        try:
            spans, end = json_elements.elements(begin, 1, most=most)
        except NoArray:
            raise NotAnArray from None
    else:
        raise NotAnArray
    if begin[end:].strip(SPACE):
        raise NotAnArray
    return [_checked(begin[start:stop].strip(SPACE)) for start, stop in spans]


def _checked(element: bytes) -> bytes:
    try:
        # Bytes that are not UTF-8 are kept as they are.
        _DECODER.decode(weigh(element).decode(errors="surrogateescape"))
    except (ValueError, RecursionError):
        raise NotAnArray from None
    return element
