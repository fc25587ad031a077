"""The elements of a JSON array as they are written."""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import Final, NoReturn

_SPACE: Final = re.compile(r"[ \t\r\n]*")


class NotAnArray(ValueError):
    pass


def _refuse(constant: str) -> NoReturn:
    raise NotAnArray(constant)


# Only where an element ends is asked, and a number of any length ends somewhere.
_DECODER: Final = JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse)


def elements(document: bytes) -> list[bytes]:
    """Each element's bytes; none for `null`.

    Raises:
        NotAnArray: it is another value, or no JSON.
    """
    # Bytes that are no UTF-8 go through as they are.
    text = document.decode(errors="surrogateescape")
    try:
        return _elements(text)
    except (ValueError, IndexError, RecursionError):
        raise NotAnArray from None


def _elements(text: str) -> list[bytes]:
    found: list[bytes] = []
    at = _behind_space(text, 0)
    if text[at : at + 4] == "null":
        at += 4
    elif text[at] != "[":
        raise NotAnArray
    else:
        at = _behind_space(text, at + 1)
        while text[at] != "]" or found:
            end = _DECODER.raw_decode(text, at)[1]
            found.append(text[at:end].encode(errors="surrogateescape"))
            at = _behind_space(text, end)
            if text[at] == "]":
                break
            if text[at] != ",":
                raise NotAnArray
            at = _behind_space(text, at + 1)
        at += 1
    if _behind_space(text, at) != len(text):
        raise NotAnArray
    return found


def _behind_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
