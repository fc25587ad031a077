"""Decides when a confirm by a new queue counts, on a broker that may be killed.

A quorum queue that was just created may not survive a kill of the broker: RabbitMQ writes the queue's registration
about once a second. Measured on 3.10, 4.0 and 4.3: a queue was lost if the broker was killed up to 0.6 s after the
declare, and kept from 1.2 s on. So a confirm by a queue counts only once the queue is old enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from math import inf
from time import monotonic

_SETTLES_AFTER_S = 1.5

WHEEL = ""
"""The name of the wheel's group of queues. Each other group is a topic's ready queue or its dead queue."""


class YoungQueues:
    """Remembers the ages of groups of queues that are declared together. A group is the wheel, a topic's ready queue,
    or a topic's dead queue."""

    def __init__(self) -> None:
        self._begun: set[str] = set()
        self._declared_s: dict[str, float] = {}  # when the groups that this process declared settle
        self._found_s: dict[str, float] = {}  # when the groups that this process found settle

    def begun(self, group: str) -> bool:
        """Whether a declare of the group has begun and not succeeded. Then RabbitMQ may have done any part of it."""
        return group in self._begun

    def declaring(self, group: str) -> None:
        """Remembers that a declare of the group begins."""
        self._begun.add(group)

    def declared(self, group: str) -> None:
        """Remembers that a declare of the group has succeeded. The queues' age counts from now."""
        self._begun.discard(group)
        self._declared_s[group] = monotonic() + _SETTLES_AFTER_S

    def exists(self, group: str) -> None:
        """Remembers that another process has declared the group, perhaps a moment ago. The queues' age counts from the
        first such call."""
        self._found_s.setdefault(group, monotonic() + _SETTLES_AFTER_S)

    def old(self, group: str) -> None:
        """Remembers that the group's queues are old, so their confirms count. Changes nothing if this process has
        declared the group."""
        self._found_s[group] = 0.0

    def forget(self, group: str) -> None:
        """Forgets a group that was deleted."""
        self._begun.discard(group)
        for times_s in (self._declared_s, self._found_s):
            times_s.pop(group, None)

    def forget_settled(self, kept: str) -> None:
        """Forgets all groups whose confirms count, except `kept`. Before callers use a group again, they must call
        `declared`, `exists` or `old`."""
        now_s = monotonic()
        for times_s in (self._declared_s, self._found_s):
            for group in [group for group, settles_s in times_s.items() if settles_s <= now_s and group != kept]:
                del times_s[group]

    def unsettled(self, group: str) -> bool:
        """Whether a confirm by the group's queues does not count yet. True for an unknown group."""
        return group in self._begun or self._settles_s(group, inf) > monotonic()

    async def settled(self, groups: Collection[str], since_s: float = inf) -> bool:
        """Waits until confirms by the queues of these groups count: the messages then survive a kill of the broker.

        Returns whether one of the groups was new at `since_s`, a moment of `monotonic()`. Then a kill since that moment
        may have lost messages that were confirmed before the kill."""
        was_new = max(self._settles_s(group, 0.0) for group in groups) > since_s
        if (left_s := max(map(self.settles_in_s, groups))) > 0:
            await asyncio.sleep(left_s)
        return was_new

    def settles_in_s(self, group: str) -> float:
        """Returns the seconds until a confirm by the group's queues counts. 0: it counts, or the group is unknown."""
        return max(0.0, self._settles_s(group, 0.0) - monotonic())

    def _settles_s(self, group: str, unknown_s: float) -> float:
        declared_s = self._declared_s.get(group)
        return self._found_s.get(group, unknown_s) if declared_s is None else declared_s
