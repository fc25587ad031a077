"""Orders the ready messages of a queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from tests.simulate.rabbitmq.message import Entry

_DEFAULT_PRIORITY: Final = 4
_WEIGHT: Final = 2  # urgent messages in a row, on a queue with two levels


class Backlog:
    """The ready entries of one queue. `levels`: how many priorities the queue tells apart. `apart`: each priority has a
    head that may expire; else the entry that is delivered next alone may.

    A classic queue puts a returned entry back to its former place. A quorum queue puts it behind the entries that were
    returned before, and delivers those first.
    """

    def __init__(self, *, quorum: bool, levels: int, apart: bool) -> None:
        self._quorum = quorum
        self._apart = apart
        self._levels: list[deque[Entry]] = [deque() for _ in range(levels if quorum else 1)]
        self._returned: deque[Entry] = deque()
        self._in_a_row = 0
        self.bytes = 0

    def __iter__(self) -> Iterator[Entry]:
        """Yields all entries, in no order."""
        yield from self._returned
        for level in self._levels:
            yield from level

    def __len__(self) -> int:
        return len(self._returned) + sum(map(len, self._levels))

    def add(self, entry: Entry) -> None:
        """Adds a new entry behind the others of its level."""
        entry.level = self._level(entry)
        self._levels[entry.level].append(entry)
        self.bytes += len(entry.message.body)

    def give_back(self, entry: Entry) -> None:
        """Adds an entry that a consumer has returned."""
        self.bytes += len(entry.message.body)
        if self._quorum:
            self._returned.append(entry)
            return
        level = self._levels[0]
        at = next((at for at, other in enumerate(level) if other.order > entry.order), len(level))
        level.insert(at, entry)

    def pop(self) -> Entry | None:
        """Removes the entry that is delivered next; None: there is none."""
        lane = self._next()
        if lane is None:
            return None
        if len(self._levels) == 2 and lane is not self._returned:
            self._in_a_row = self._in_a_row + 1 if lane is self._levels[1] and self._in_a_row < _WEIGHT else 0
        return self._taken(lane)

    def expired(self, has_expired: Callable[[Entry], bool]) -> Iterator[Entry]:
        """Removes the entries at the heads that have expired, one after another."""
        while (lane := next((lane for lane in self._heads() if has_expired(lane[0])), None)) is not None:
            yield self._taken(lane)

    def next_expiry_ms(self) -> float | None:
        """Returns when the first head expires; None: none does."""
        return min((at for lane in self._heads() if (at := lane[0].expires_ms) is not None), default=None)

    def clear(self) -> list[Entry]:
        """Removes and returns all entries."""
        entries = [*self]
        self._returned.clear()
        for level in self._levels:
            level.clear()
        self.bytes = 0
        return entries

    def _taken(self, lane: deque[Entry]) -> Entry:
        entry = lane.popleft()
        self.bytes -= len(entry.message.body)
        return entry

    def _heads(self) -> list[deque[Entry]]:
        """Returns the parts whose heads may expire."""
        if self._apart and not self._returned:
            return [level for level in self._levels if level]
        lane = self._next()
        return [] if lane is None else [lane]

    def _next(self) -> deque[Entry] | None:
        """Returns the part whose head is delivered next."""
        if self._returned:
            return self._returned
        filled = [level for level in reversed(self._levels) if level]
        if len(filled) == len(self._levels) == 2 and self._in_a_row == _WEIGHT:
            return filled[1]
        return filled[0] if filled else None

    def _level(self, entry: Entry) -> int:
        properties, levels = entry.message.properties, len(self._levels)
        priority = properties.octet("priority") if "priority" in properties.values else _DEFAULT_PRIORITY
        if levels == 2:
            return int(priority > _DEFAULT_PRIORITY)
        return min(priority, levels - 1)
