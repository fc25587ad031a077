"""Reads and writes JSON. A value that only passes through stays as text (`Raw`), so its numbers keep every digit."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from bridge.http.errors import BrokenJSON

_ENCODER: Final = msgspec.json.Encoder()
TOO_DEEP: Final = "the body is not valid JSON: it nests too deep"
_RAW: Final = msgspec.json.Decoder(Raw)


def check_text(document: bytes) -> bytes:
    """Checks that the document is UTF-8, and returns it unchanged. msgspec does not check the strings of `Raw` values.

    Raises:
        UnicodeDecodeError: the document is not UTF-8.
    """
    if not document.isascii():
        document.decode()
    return document


def is_json(document: bytes) -> bool:
    """Whether the document is valid JSON in UTF-8."""
    try:
        _RAW.decode(check_text(document))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def compact(value: Raw | bytes) -> bytes:
    """Returns the JSON without white space between its tokens. `value` must be valid JSON.

    Raises:
        BrokenJSON: the value nests too deep for Python's stack.
    """
    try:
        return msgspec.json.format(memoryview(value), indent=-1)
    except RecursionError:
        raise BrokenJSON(TOO_DEEP) from None


def dumps(value: Any) -> bytes:
    """Returns the value as compact JSON in UTF-8.

    Raises:
        TypeError: the value has no JSON form.
        RecursionError: the value nests too deep for Python's stack.
    """
    return _ENCODER.encode(value)
