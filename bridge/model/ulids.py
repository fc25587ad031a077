"""Makes ids for messages that came without one: ULIDs, which sort by the moment they were made (github.com/ulid/spec).

The library python-ulid makes the first ULID of a millisecond, in 4 us. Later ULIDs of that millisecond count up from
the first, in 0.5 us each.
"""

from __future__ import annotations

import os
import re
from time import time_ns
from typing import Final

from ulid import ULID

_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS: Final = tuple(first + second for first in _DIGITS for second in _DIGITS)  # ten bits each

ULID_PATTERN: Final = r"^[0-9A-HJKMNP-TV-Z]{26}$"
_ULID = re.compile(ULID_PATTERN[:-1] + r"\Z")


def valid_ulid(text: str) -> bool:
    return _ULID.match(text) is not None


class _Ulids:
    def __init__(self) -> None:
        self._made_ms = 0
        self._head = ""  # all but the last four digits
        self._tail = 0  # the last four digits, 20 bits; random in the first ULID of a millisecond

    def new(self) -> str:
        """Makes a ULID. ULIDs of one process ascend, also within a millisecond."""
        now_ms = time_ns() // 1_000_000
        if now_ms != self._made_ms:
            random = os.urandom(10)
            self._made_ms = now_ms
            self._head = str(ULID(now_ms.to_bytes(6, "big") + random))[:-4]
            self._tail = int.from_bytes(random[-3:], "big") >> 5  # 19 bits, so that half a million more fit
        tail = self._tail
        self._tail += 1
        return f"{self._head}{_PAIRS[tail >> 10]}{_PAIRS[tail & 1023]}"


new_ulid: Final = _Ulids().new
