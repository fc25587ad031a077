"""Queues that were declared a moment ago, on a broker that may be killed.

A quorum queue that was just created does not survive a kill of the broker: its registration is written about once a
second (measured: lost when killed up to 0.6 s after the declare, kept from 1.2 s on, on 3.10, 4.0 and 4.3). So a
confirm of a queue counts only once the queue is old enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from math import inf
from time import monotonic

_SETTLES_AFTER_S = 1.5


class YoungQueues:
    """What was declared together is a group: the wheel, or a topic's queues."""

    def __init__(self) -> None:
        self._begun: set[str] = set()
        self._declared_s: dict[str, float] = {}  # when what this process declared settles
        self._found_s: dict[str, float] = {}  # and what stood when it was first seen

    def begun(self, group: str) -> bool:
        """Whether a declare of it has begun and not ended well: nobody knows how far it got."""
        return group in self._begun

    def declaring(self, group: str) -> None:
        self._begun.add(group)

    def declared(self, group: str) -> None:
        self._begun.discard(group)
        self._declared_s[group] = monotonic() + _SETTLES_AFTER_S

    def stands(self, group: str) -> None:
        """It was declared by somebody else, perhaps a moment ago."""
        self._found_s.setdefault(group, monotonic() + _SETTLES_AFTER_S)

    def old(self, group: str) -> None:
        """If it was declared by somebody else, that was long ago."""
        self._found_s[group] = 0.0

    def forget(self, group: str) -> None:
        self._begun.discard(group)
        for times_s in (self._declared_s, self._found_s):
            times_s.pop(group, None)

    def unsettled(self, group: str) -> bool:
        """Whether a confirm by its queues does not count yet."""
        return group in self._begun or self._settles_s(group, inf) > monotonic()

    async def settled(self, groups: Iterable[str]) -> None:
        """Waits until confirms by their queues outlive a kill of the broker."""
        until_s = max(self._settles_s(group, 0.0) for group in groups)
        if (left_s := until_s - monotonic()) > 0:
            await asyncio.sleep(left_s)

    def _settles_s(self, group: str, unknown_s: float) -> float:
        found_s = self._declared_s.get(group)
        return self._found_s.get(group, unknown_s) if found_s is None else found_s
