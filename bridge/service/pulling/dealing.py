"""Decides how the messages of one topic are dealt to the pulls that want them. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

MOST: Final = 256
"""Messages of one group, and of one feed. A bundle has room for as many lease copies."""

_AHEAD: Final = 4
"""Messages that a feed holds ahead for steady pulls. RabbitMQ takes a while to replace an acknowledged one."""

_STEADY_PULLS: Final = 4
_STEADY_S: Final = 0.2
LOOK_EVERY_S: Final = 1.0


def deal(limits: Iterable[int], messages: int) -> list[int]:
    """Deals messages to pulls in the order of arrival, each pull at most its limit. Returns how many each gets."""
    shares = []
    for limit in limits:
        shares.append(min(limit, messages))
        messages -= shares[-1]
    return shares


def serves_all(limits: Sequence[int], messages: int) -> bool:
    """Returns whether each of the pulls gets a message."""
    return all(deal(limits, messages))


def window_for(shares: Iterable[int], out: int, *, steady: bool, leased: int) -> int:
    """Returns how many messages a feed may hold. `shares`: what each pull wants of it. `out`: messages that are being
    leased, which count until they are acknowledged. `leased`: leased ones that are not acknowledged yet. They come and
    go fast, so the window has room for the next power of two."""
    room = 1 << (leased - 1).bit_length() if leased else 0
    return max(1, min(MOST, room + out + sum(shares) + _AHEAD * steady))


class Demand:
    """The demand for one topic: how fast its pulls come, and how much they want.

    It is steady while `_STEADY_PULLS` pulls came within `_STEADY_S`. Moments are seconds of a monotonic clock.
    """

    def __init__(self) -> None:
        self._came_s: deque[float] = deque(maxlen=_STEADY_PULLS)
        self._most = 0
        self._looked_s = 0.0

    def note(self, now_s: float) -> None:
        """Notes a pull."""
        self._came_s.append(now_s)

    def is_steady(self, now_s: float) -> bool:
        return len(self._came_s) == _STEADY_PULLS and now_s - self._came_s[0] <= _STEADY_S

    def resized(self, window: int, wanted: int, now_s: float) -> int:
        """Returns the window that a feed with `window` should have. It grows at once. Once a second it shrinks, if less
        than half of it was wanted since."""
        if wanted > window:
            self._most, self._looked_s = 0, now_s
            return wanted
        self._most = max(self._most, wanted)
        if now_s - self._looked_s < LOOK_EVERY_S:
            return window
        most, self._most, self._looked_s = self._most, wanted, now_s
        return most if 2 * most < window else window
