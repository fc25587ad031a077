"""Parameters as Go reads them: `strconv`'s numbers and booleans, and Gin's defaults, which an empty value is not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from bridge.http.wires.lmstfy.answers import Refusal

_DIGITS: Final = re.compile(r"0*([0-9]{1,19})")
_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
_FALSE: Final = ("0", "f", "F", "FALSE", "false", "False")
_MAX_PARAMETERS: Final = 10_000


class NotANumber(ValueError):
    pass


def parse_uint(digits: str, bits: int) -> int:
    """
    Raises:
        NotANumber: anything but digits, or beyond so many bits.
    """
    found = _DIGITS.fullmatch(digits)
    if found is None or (number := int(found[1])) >= 1 << bits:
        raise NotANumber(digits)
    return number


def parse_int(digits: str) -> int:
    """64 bits, with or without a sign.

    Raises:
        NotANumber
    """
    number = parse_uint(digits[1:] if digits[:1] in ("+", "-") else digits, 63)
    return -number if digits.startswith("-") else number


@dataclass(frozen=True, slots=True)
class Query:
    """A query string's parameters, of several of one name the first. Every reader raises Refusal, with HTTP 400."""

    values: dict[str, str]

    @classmethod
    def of(cls, encoded: bytes) -> Query:
        try:
            pairs = parse_qsl(encoded.decode(errors="replace"), keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
        except ValueError:
            pairs = []
        return cls(dict(reversed(pairs)))

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
        word = self.values.get(name, "false")
        if word not in _TRUE + _FALSE:
            raise Refusal(400, error=f"invalid {name} value")
        return word in _TRUE
