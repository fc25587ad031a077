"""Splits a JSON array into its elements, keeping the bytes of each as the client wrote them."""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import Final, NoReturn

_SPACE: Final = re.compile(r"[ \t\r\n]*")


class NotAnArray(ValueError):
    pass


def _refuse(constant: str) -> NoReturn:
    raise NotAnArray(constant)


# The decoder only finds where an element ends. Parsing numbers as text allows numbers of any length.
_DECODER: Final = JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse)


def elements(document: bytes) -> list[bytes]:
    """Returns the bytes of each element, and no element for `null`.

    Raises:
        NotAnArray: the document is another value, or no valid JSON.
    """
    # Bytes that are not UTF-8 are kept as they are.
    text = document.decode(errors="surrogateescape")
    try:
        return _elements(text)
    except (ValueError, IndexError, RecursionError):
        raise NotAnArray from None


def _elements(text: str) -> list[bytes]:
    values: list[bytes] = []
    at = _after_space(text, 0)
    if text[at : at + 4] == "null":
        at += 4
    elif text[at] != "[":
        raise NotAnArray
    else:
        at = _after_space(text, at + 1)
        while text[at] != "]" or values:
            end = _DECODER.raw_decode(text, at)[1]
            values.append(text[at:end].encode(errors="surrogateescape"))
            at = _after_space(text, end)
            if text[at] == "]":
                break
            if text[at] != ",":
                raise NotAnArray
            at = _after_space(text, at + 1)
        at += 1
    if _after_space(text, at) != len(text):
        raise NotAnArray
    return values


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()
