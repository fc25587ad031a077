"""Reads query parameters by the rules of Go and Gin: numbers and booleans of `strconv`, and defaults.

An empty number does not mean the default; it is invalid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_plus

from bridge.http.wires.lmstfy.answers import Refusal

_DIGITS: Final = re.compile(r"0*([0-9]{1,19})")
_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
_BROKEN: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


class NotANumber(ValueError):
    pass


def parse_uint(digits: str, bits: int) -> int:
    """Returns a text of digits as a number of at most `bits` bits.

    Raises:
        NotANumber: the text has other characters than digits, or the number needs more than `bits` bits.
    """
    match = _DIGITS.fullmatch(digits)
    if match is None or (number := int(match[1])) >= 1 << bits:
        raise NotANumber(digits)
    return number


def parse_int(digits: str) -> int:
    """Returns a text of digits, with or without a sign, as a signed number of 64 bits.

    Raises:
        NotANumber: the text is no whole number, or the number does not fit into 64 bits.
    """
    number = parse_uint(digits[1:] if digits[:1] in ("+", "-") else digits, 63)
    return -number if digits.startswith("-") else number


def pairs(encoded: str) -> Iterator[tuple[str, str]]:
    """Yields the names and values of a query string or a form. Skips a pair that has a semicolon or a broken escape."""
    for pair in encoded.split("&"):
        if pair and ";" not in pair and not _BROKEN.search(pair):
            name, _, value = pair.partition("=")
            yield unquote_plus(name), unquote_plus(value)


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of a query string. If a name occurs several times, the first value counts. The methods `uint` and
    `signed` raise Refusal (HTTP 400) for a value that is no number, or a number beyond their limits."""

    values: dict[str, str]

    @classmethod
    def of(cls, encoded: bytes) -> Query:
        return cls(dict(reversed([*pairs(encoded.decode(errors="replace"))])))

    def uint(self, name: str, default: int, bits: int = 32) -> int:
        try:
            return parse_uint(self.values.get(name, str(default)), bits)
        except NotANumber:
            raise Refusal(400, error=f"invalid {name}") from None

    def signed(self, name: str, default: int, *, least: int) -> int:
        try:
            number = parse_int(self.values.get(name, str(default)))
        except NotANumber:
            number = least - 1
        if number < least:
            raise Refusal(400, error=f"invalid {name}")
        return number

    def boolean(self, name: str) -> bool:
        """Returns True for a value that Go's ParseBool reads as true, else False, also if the parameter is missing."""
        return self.values.get(name) in _TRUE
