"""Reads and writes JSON without changing a digit of any number.

64-bit floats and integers would turn 123456789012345678901234567890 into 1.2345678901234568e+29. If a document may hold
such a number, the slower standard library reads it, and the number keeps its digits until it is written.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import orjson

# A float always keeps 15 significant digits and an exponent of two digits. It may lose sixteen digits with a dot,
# seventeen digits, or an exponent of three digits. A string with such characters only costs the slower parser.
# The search maps all digits and dots to one character. A regular expression for the same costs ten times as much.
_DIGITS_TO_ZERO = bytes.maketrans(b"123456789.E-", b"0000000000e+")
_LONG_NUMBER = b"0" * 17
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class WideInt(int):
    """An integer that may need more than 64 bits."""


class LongFloat(float):
    """A number whose float would be written with other digits. `literal`: the number's text as it was read."""

    __slots__ = ("literal",)

    literal: str


def loads(document: bytes) -> Any:
    """Parses a JSON document, and returns its value.

    Raises:
        ValueError: the document is not JSON (RFC 8259 has no NaN and no Infinity), nests too deep for the parser, or
            has half of a surrogate pair.
    """
    if not may_lose_digits(document):
        return orjson.loads(document)
    try:
        value = json.loads(document.decode(), parse_int=_integer, parse_float=_float, parse_constant=_refuse)
        if _SURROGATE.search(document):
            json.dumps(value, ensure_ascii=False).encode()  # fails for half of a pair
    except RecursionError:
        raise ValueError("it nests too deep") from None
    return value


def may_lose_digits(document: bytes) -> bool:
    """Whether a number of the document may be too long for a 64-bit float or integer."""
    mapped = document.translate(_DIGITS_TO_ZERO)
    return _LONG_NUMBER in mapped or b"e000" in mapped or b"e+000" in mapped


def dumps(value: Any) -> bytes:
    """Returns the value as compact JSON in UTF-8.

    Raises:
        TypeError: the value nests deeper than 254 levels, or has half of a surrogate pair.
    """
    return orjson.dumps(value, default=_literal, option=orjson.OPT_PASSTHROUGH_SUBCLASS)


def is_json(document: bytes) -> bool:
    """Whether `loads` accepts the document."""
    try:
        loads(document)
    except ValueError:
        return False
    return True


def _integer(literal: str) -> int:
    return int(literal) if len(literal) < 19 else WideInt(literal)


def _float(literal: str) -> float:
    plain = float(literal)
    if repr(plain) == literal:
        return plain
    number = LongFloat(literal)
    number.literal = literal
    return number


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not allowed in JSON")


def _literal(value: Any) -> orjson.Fragment:
    if isinstance(value, LongFloat):
        return orjson.Fragment(value.literal)
    if isinstance(value, WideInt):
        return orjson.Fragment(int.__repr__(value))
    raise TypeError(f"{type(value).__name__} has no JSON form")
