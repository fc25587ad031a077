"""Decides how many of a topic's messages each waiting pull gets, and how many messages a feed may hold. A feed is a
consumer that pulls share. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

MOST: Final = 256
"""The most messages that are leased as one group, and the most that one feed holds. A bundle has room for as many lease
copies."""

_AHEAD: Final = 4
"""How many messages a feed holds ahead for steady pulls. After an ack, RabbitMQ takes a while to send another
message."""

_STEADY_PULLS: Final = 4
_STEADY_S: Final = 0.2
LOOK_EVERY_S: Final = 1.0


def deal(limits: Iterable[int], messages: int) -> list[int]:
    """Deals messages to pulls in order, to each pull at most its limit. Returns how many messages each pull gets."""
    shares = []
    for limit in limits:
        shares.append(min(limit, messages))
        messages -= shares[-1]
    return shares


def serves_all(limits: Sequence[int], messages: int) -> bool:
    """Whether each pull gets a message. `limits`: the most messages for each pull, in order."""
    return all(deal(limits, messages))


def window_for(shares: Iterable[int], out: int, *, steady: bool, leased: int) -> int:
    """Returns how many messages a feed may hold, from 1 to `MOST`.

    `shares`: how many messages each pull wants from the feed. `out`: how many messages are being leased; they count
    until they are acknowledged. `steady`: pulls keep coming. `leased`: how many leased messages are not acknowledged
    yet. This number changes fast, so the function rounds it up to a power of two.
    """
    room = 1 << (leased - 1).bit_length() if leased else 0
    return max(1, min(MOST, room + out + sum(shares) + _AHEAD * steady))


class Demand:
    """The demand for one topic: how fast its pulls come, and how much they want. It is steady while the latest four
    pulls came within 0.2 s. Moments are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._came_s: deque[float] = deque(maxlen=_STEADY_PULLS)
        self._most = 0
        self._looked_s = 0.0

    def note(self, now_s: float) -> None:
        """Counts a pull that came at `now_s`."""
        self._came_s.append(now_s)

    def is_steady(self, now_s: float) -> bool:
        return len(self._came_s) == _STEADY_PULLS and now_s - self._came_s[0] <= _STEADY_S

    def resized(self, window: int, wanted: int, now_s: float) -> int:
        """Returns the new window of a feed: how many messages it may hold. `window`: the present window. `wanted`: the
        window that pulls need now.

        A window grows at once. Once a second, a window may shrink to the largest size that was needed since the last
        check. It shrinks only if that size is less than half of the window.
        """
        if wanted > window:
            self._most, self._looked_s = 0, now_s
            return wanted
        self._most = max(self._most, wanted)
        if now_s - self._looked_s < LOOK_EVERY_S:
            return window
        most, self._most, self._looked_s = self._most, wanted, now_s
        return most if 2 * most < window else window
