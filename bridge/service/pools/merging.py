"""Merges the indexes of many topics into one order, without looking at more entries than it needs. Pure.

Each index is read in portions. An entry can be taken once no index can have an earlier one that was not read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from bridge.model.filter import Found, Order
from bridge.store.messages.parts import Entry, Part

Position = tuple[int, str, str]
"""A due moment, a topic and an id: the order of a search. All three are compared as Redis compares them."""

BELOW_IDS, ABOVE_IDS = "\x01", "\x7f"  # every id is between them
A_ROUND: Final = 2_000
"""The most entries that one round looks at, if there are no more indexes than that."""

CALL_COST: Final = 20
"""A call about one index costs as much time as looking at so many entries."""

MOST_COST: Final = 20_000
"""The cost, beyond that of one look at each index, after which a page ends, however few messages it has."""


class Index(NamedTuple):
    """One bucket of one topic."""

    topic: str
    bucket: int


@dataclass(frozen=True, slots=True)
class Ask:
    """Looks at so many entries of an index, behind a cursor."""

    index: Index
    cursor: Entry | None
    limit: int


class Merge:
    """The merge of one page. `behind`: the position where the page before ended. `a_call`: the most entries that one
    call looks at."""

    def __init__(self, indexes: Iterable[Index], order: Order, behind: Position | None, *, a_call: int) -> None:
        self._descends = order is Order.DESC
        self._open: dict[Index, Position | None] = dict.fromkeys(indexes)  # how far each was read, if it may have more
        self._known: list[Found] = []
        self._a_call = a_call
        self._behind = behind
        self._cost: int | None = None
        self.position = behind
        self.looked = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to take."""
        return not self._open and not self._known

    def asks(self, wanted: int) -> list[Ask]:
        """What to read, so that `wanted` entries can be taken. Empty: they can be taken now, or it costs too much."""
        enough = _position(self._known[wanted - 1]) if len(self._known) >= wanted else None
        short = [
            (index, reached)
            for index, reached in self._open.items()
            if enough is None or reached is None or self._before(reached, enough)
        ]
        if self._cost is None:
            limit, self._cost = self._limit(len(short)), 0
        else:
            # Those that are the least far: no entry behind them can be taken before they are read on. They are few, so
            # that each call looks at as many entries as it costs.
            short.sort(key=lambda one: one[1] or (0, "", ""), reverse=self._descends)
            short = short[: A_ROUND // CALL_COST]
            limit = self._limit(len(short))
            short = short[: (MOST_COST - self._cost) // (CALL_COST + limit)]
            self._cost += len(short) * (CALL_COST + limit)
        return [Ask(index, self._cursor(index, reached), limit) for index, reached in short]

    def add(self, ask: Ask, part: Part) -> None:
        """Notes what was read."""
        topic = ask.index.topic
        self.looked += part.looked
        self._known += [Found(topic, message_id, due_ms, state) for due_ms, message_id, state in part.entries]
        if part.looked < ask.limit:
            del self._open[ask.index]
        else:
            due_ms, message_id = part.last
            self._open[ask.index] = (due_ms, topic, message_id)

    def take(self, most: int) -> list[Found]:
        """The next entries in order, as far as they are certain. `position` is then behind them, and behind all that
        does not match before the next one."""
        self._known.sort(key=_position, reverse=self._descends)
        certain = self._known
        frontier: Position | None = None
        if self._open:
            reached = self._open.values()
            if None in reached:
                return []
            frontier = (max if self._descends else min)(position for position in reached if position is not None)
            certain = [found for found in certain if not self._before(frontier, _position(found))]
        taken = certain[:most]
        self._known = self._known[len(taken) :]
        if len(taken) == len(certain) and frontier is not None:
            self.position = frontier
        elif taken:
            self.position = _position(taken[-1])
        return taken

    def _limit(self, calls: int) -> int:
        return max(1, min(self._a_call, A_ROUND // max(1, calls)))

    def _cursor(self, index: Index, reached: Position | None) -> Entry | None:
        """The place in this index from which to read."""
        if reached is not None:
            return reached[0], reached[2]
        if self._behind is None:
            return None
        due_ms, topic, message_id = self._behind
        if index.topic == topic:
            return due_ms, message_id
        # The entries of one moment are in the order of their topics. So those of an earlier topic are all passed, and
        # those of a later one are all to come; in descending order the other way round.
        return due_ms, ABOVE_IDS if index.topic < topic else BELOW_IDS

    def _before(self, one: Position, other: Position) -> bool:
        return one > other if self._descends else one < other


def _position(found: Found) -> Position:
    return found.due_ms, found.topic, found.id


def position_of(found: Found) -> Position:
    """Where the message is in the order."""
    return _position(found)
