"""Reads and writes JSON. A value that only passes through stays as text (`Raw`), so its numbers keep every digit."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

_ENCODER: Final = msgspec.json.Encoder()
_RAW: Final = msgspec.json.Decoder(Raw)


def check_text(document: bytes) -> bytes:
    """Returns the document. Raises UnicodeDecodeError if it is not UTF-8: msgspec does not check the strings of `Raw`
    values."""
    if not document.isascii():
        document.decode()
    return document


def is_json(document: bytes) -> bool:
    """Whether the document is JSON."""
    try:
        _RAW.decode(check_text(document))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def compact(value: Raw | bytes) -> bytes:
    """Returns a valid JSON value without space between its parts."""
    return msgspec.json.format(memoryview(value), indent=-1)


def dumps(value: Any) -> bytes:
    """Returns the value as compact JSON in UTF-8.

    Raises:
        TypeError: the value has no JSON form.
        RecursionError: the value nests too deep.
    """
    return _ENCODER.encode(value)
