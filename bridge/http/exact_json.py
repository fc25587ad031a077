"""JSON in and out, with every number kept digit for digit.

Plain 64-bit floats and integers would turn 123456789012345678901234567890 into 1.2345678901234568e+29. A document that
may hold such a number is read by the slower standard library, and the number keeps its digits for when it is written.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import orjson

# 15 significant digits survive a float always, and an exponent of two digits is in range. Sixteen digits and a dot, or
# seventeen digits, may not; nor may an exponent of three digits. A string that looks so only takes the slower way.
# Searched for where all digits and dots are one character: a regular expression for the same takes ten times as long.
_ALIKE = bytes.maketrans(b"123456789.E-", b"0000000000e+")
_LONG = b"0" * 17
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class WideInt(int):
    """An integer that may need more than 64 bits."""


class LongFloat(float):
    """A number that a float would be written otherwise than it was: `literal` is how."""

    literal: str


def loads(document: bytes) -> Any:
    """
    Raises:
        ValueError: the document is not JSON (RFC 8259: no NaN, no Infinity), nests too deep to be read, or holds half
            of a surrogate pair.
    """
    alike = document.translate(_ALIKE)
    if not (_LONG in alike or b"e000" in alike or b"e+000" in alike):
        return orjson.loads(document)
    try:
        value = json.loads(document.decode(), parse_int=_integer, parse_float=_float, parse_constant=_refuse)
        if _SURROGATE.search(document):
            json.dumps(value, ensure_ascii=False).encode()  # which half of a pair has no bytes for
    except RecursionError:
        raise ValueError("nests too deep") from None
    return value


def dumps(value: Any) -> bytes:
    """Compact UTF-8.

    Raises:
        TypeError: the value nests deeper than 254 levels, or holds half of a surrogate pair.
    """
    return orjson.dumps(value, default=_literal, option=orjson.OPT_PASSTHROUGH_SUBCLASS)


def is_json(document: bytes) -> bool:
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
    raise ValueError(f"{constant} is not JSON")


def _literal(value: Any) -> orjson.Fragment:
    if isinstance(value, LongFloat):
        return orjson.Fragment(value.literal)
    if isinstance(value, WideInt):
        return orjson.Fragment(int.__repr__(value))
    raise TypeError(f"{type(value).__name__} has no JSON form")
