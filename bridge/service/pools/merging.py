"""Merges the indexes of many topics into one sorted list, and asks for few entries beyond those that it needs. Pure.

The caller reads each index in portions. An entry can be taken once every index was read up to the entry's position.
Before that, an unread entry of another index may be earlier.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from bridge.model.filter import Found, Order
from bridge.store.messages.parts import Entry, Part

Position = tuple[int, str, str]
"""A due moment, a topic and an id. Searches sort by these three, and compare them as Redis does."""

BELOW_IDS, ABOVE_IDS = "\x01", "\x7f"  # every id is between them
A_ROUND: Final = 2_000
"""The most entries that the requests of one call of `Merge.asks` read together. With more indexes than this, each
request reads one entry."""

CALL_COST: Final = 20
"""The cost of one call to Redis about an index, beside the cost of the entries that it reads. The unit of cost is the
reading of one entry."""

MOST_COST: Final = 20_000
"""The cost after which a page ends, however few messages it has. The first call about each index does not count."""


class Index(NamedTuple):
    """One of the buckets into which Redis splits the index of a topic. Its entries in all wanted states count as one
    index."""

    topic: str
    bucket: int


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to read `limit` entries of an index after the entry `cursor`. `cursor` None: from the beginning."""

    index: Index
    cursor: Entry | None
    limit: int


class Merge:
    """Merges the indexes for one page of a search. `behind`: the position where the previous page ended; None: this is
    the first page. `a_call`: the most entries that one call reads. `position`: where this page ends so far; None: at
    the beginning. `looked`: how many entries were read."""

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
        """Whether no entry is left to take."""
        return not self._open and not self._known

    def asks(self, wanted: int) -> list[Ask]:
        """Returns the requests to make next, so that `take` can return `wanted` entries. The list is empty if `take`
        can return them now, or if the page has cost too much already (`MOST_COST`)."""
        enough = position_of(self._known[wanted - 1]) if len(self._known) >= wanted else None
        short = [
            (index, reached)
            for index, reached in self._open.items()
            if enough is None or reached is None or self._before(reached, enough)
        ]
        if self._cost is None:
            limit, self._cost = self._limit(len(short)), 0
        else:
            # Read on in the indexes that were read the least far: until then, no entry behind those places can be
            # taken. Few indexes, so that each call looks at as many entries as it costs.
            short.sort(key=lambda one: one[1] or (0, "", ""), reverse=self._descends)
            short = short[: A_ROUND // CALL_COST]
            limit = self._limit(len(short))
            short = short[: (MOST_COST - self._cost) // (CALL_COST + limit)]
            self._cost += len(short) * (CALL_COST + limit)
        return [Ask(index, self._cursor(index, reached), limit) for index, reached in short]

    def add(self, ask: Ask, part: Part) -> None:
        """Adds the entries that one request of `asks` has read. `part`: the answer of Redis to this request."""
        topic = ask.index.topic
        self.looked += part.looked
        self._known += [Found(topic, message_id, due_ms, state) for due_ms, message_id, state in part.entries]
        if part.looked < ask.limit:
            del self._open[ask.index]
        else:
            due_ms, message_id = part.last
            self._open[ask.index] = (due_ms, topic, message_id)

    def take(self, most: int) -> list[Found]:
        """Returns the next entries in order, up to `most`, as far as no unread entry can come before them.

        Then sets `position` to the last returned entry. If the call returns all entries that can be taken now, sets
        `position` to the point up to which every index was read. So the next page does not read the entries before this
        point again.
        """
        self._known.sort(key=position_of, reverse=self._descends)
        certain = self._known
        frontier: Position | None = None
        if self._open:
            reached = self._open.values()
            if None in reached:
                return []
            frontier = (max if self._descends else min)(position for position in reached if position is not None)
            certain = [found for found in certain if not self._before(frontier, position_of(found))]
        taken = certain[:most]
        self._known = self._known[len(taken) :]
        if len(taken) == len(certain) and frontier is not None:
            self.position = frontier
        elif taken:
            self.position = position_of(taken[-1])
        return taken

    def _limit(self, calls: int) -> int:
        return max(1, min(self._a_call, A_ROUND // max(1, calls)))

    def _cursor(self, index: Index, reached: Position | None) -> Entry | None:
        """Returns the entry after which to read on in this index; None: read from the beginning. `reached`: the
        position up to which the index was read; None: it was not read yet."""
        if reached is not None:
            return reached[0], reached[2]
        if self._behind is None:
            return None
        due_ms, topic, message_id = self._behind
        if index.topic == topic:
            return due_ms, message_id
        # Entries with one due moment are in the order of their topics. So in ascending order, entries of an earlier
        # topic come before this page, and entries of a later topic after its begin; in descending order the other way
        # round.
        return due_ms, ABOVE_IDS if index.topic < topic else BELOW_IDS

    def _before(self, one: Position, other: Position) -> bool:
        return one > other if self._descends else one < other


def position_of(found: Found) -> Position:
    """Returns the position of a message in the order of a search."""
    return found.due_ms, found.topic, found.id
