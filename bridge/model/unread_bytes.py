"""Counts the bytes of answers that a process is making, or that its clients have not read yet."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from bridge.model.errors import TooManyUnread

_RESERVED: Final = 4  # a quarter of the limit


class UnreadBytes:
    """The bytes of all answers that the process is making or that clients have not read.

    `limit_bytes`: from this total on, the process begins no page and no pull. It still begins other answers, which are
    small, until the total is a quarter above the limit. So slow readers of large answers do not block other clients.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._total_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether pages and pulls are refused: the total has reached `limit_bytes`."""
        return self._total_bytes >= self._limit_bytes

    @property
    def is_over(self) -> bool:
        """Whether all requests are refused: the total is a quarter above `limit_bytes`."""
        return self._total_bytes >= self._limit_bytes + self._limit_bytes // _RESERVED

    def add(self, size_bytes: int) -> None:
        """Adds bytes to the total. A negative size takes bytes off."""
        self._total_bytes += size_bytes

    def refusal(self) -> TooManyUnread:
        return TooManyUnread(self._limit_bytes)


class Making:
    """The answer to one request, until it is written. Counts the bytes of message bodies that the answer holds."""

    __slots__ = ("_ended", "_held_bytes", "unread")

    def __init__(self, unread: UnreadBytes) -> None:
        self.unread = unread
        self._held_bytes = 0
        self._ended = False

    def hold(self, size_bytes: int) -> None:
        if not self._ended:
            self._held_bytes += size_bytes
            self.unread.add(size_bytes)

    def end(self) -> None:
        self._ended = True
        self.unread.add(-self._held_bytes)


MAKING: Final[ContextVar[Making | None]] = ContextVar("making", default=None)
"""The answer that the current task makes. None: no client waits for an answer, as in a callback."""
