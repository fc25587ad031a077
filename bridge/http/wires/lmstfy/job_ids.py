"""Makes job ids: ULIDs whose last four bytes are the delay in seconds, little-endian.

A "1" in front of the ULID means that the job may have attributes.
"""

from __future__ import annotations

from secrets import randbits
from time import time_ns
from typing import Final

from ulid import ULID

_VERSION: Final = "1"
_RANDOM_BITS: Final = 47  # of 48: half of the range is left for further ids of one millisecond


class JobIds:
    """Makes the ids of new jobs. Each id is greater than the earlier ids of this process with the same delay."""

    def __init__(self) -> None:
        self._made_ms = 0
        self._random = 0

    def new(self, delay_s: int, *, versioned: bool) -> str:
        now_ms = time_ns() // 1_000_000
        if now_ms > self._made_ms:
            self._made_ms, self._random = now_ms, randbits(_RANDOM_BITS)
        else:
            self._random += 1
        random = self._random.to_bytes(6, "big")
        ulid = ULID(self._made_ms.to_bytes(6, "big") + random + delay_s.to_bytes(4, "little"))
        return f"{_VERSION if versioned else ''}{ulid}"


def new_request_id() -> str:
    return str(ULID())
