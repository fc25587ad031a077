"""Holds copies until they are due, and then lets their topics take turns. Pure."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush, heapreplace
from itertools import count
from typing import Generic, TypeVar

Held = TypeVar("Held")


class DueQueue(Generic[Held]):
    """Holds items until they are due. All moments are milliseconds of one clock, which the caller chooses.

    Topics take turns, so a topic with many due copies does not hold up other topics. Within a topic the earliest item
    comes first, and items that are due at the same moment keep their order.

    Turns are counted in copies, because one item may be a bundle of many. The topic that has had the smallest share of
    copies has the next turn. An idle topic is forgotten. When it returns, it starts with the smallest share that any
    waiting topic has had.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, str, int, Held]] = []  # due, order, topic, copies, item
        self._order = count()
        # Items found due, each with its number of copies, by topic. No topic's queue is empty.
        self._due: dict[str, deque[tuple[int, Held]]] = {}
        self._turns: list[tuple[int, int, str]] = []  # a heap of those topics, by the share of copies each has had
        self._smallest_share = 0  # of the waiting topics: a new one starts with it

    def __len__(self) -> int:
        return len(self._heap) + sum(map(len, self._due.values()))

    def copies(self) -> int:
        """Returns how many copies all items hold."""
        waiting = sum(copies for items in self._due.values() for copies, _ in items)
        return waiting + sum(copies for _, _, _, copies, _ in self._heap)

    def add(self, due_ms: float, topic: str, held: Held, copies: int = 1) -> None:
        """Adds an item that holds `copies` copies."""
        heappush(self._heap, (due_ms, next(self._order), topic, copies, held))

    def next_due_ms(self) -> float | None:
        """Returns the earliest due moment of the items that `take_due` has not found due yet. None: there are no such
        items."""
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: float, most: int) -> list[Held]:
        """Removes and returns due items that together hold up to `most` copies. The last item may be a bundle that
        exceeds this number."""
        heap, turns = self._heap, self._turns
        if not turns:
            if not heap or heap[0][0] > now_ms:
                return []
            due: list[tuple[float, int, str, int, Held]] = []
            room = most
            while heap and heap[0][0] <= now_ms and room > 0:
                due.append(heappop(heap))
                room -= due[-1][3]
            if not heap or heap[0][0] > now_ms:
                return [held for _, _, _, _, held in due]
            for entry in due:
                self._wait(*entry)
        while heap and heap[0][0] <= now_ms:
            self._wait(*heappop(heap))
        taken: list[Held] = []
        while turns and most > 0:
            share, order, topic = turns[0]
            waiting = self._due[topic]
            same_topic = True
            while same_topic:
                copies, held = waiting.popleft()
                taken.append(held)
                self._smallest_share = share
                share += copies
                most -= copies
                # A single waiting topic has every turn, so the heap is not touched.
                same_topic = len(turns) == 1 and bool(waiting) and most > 0
            if waiting:
                heapreplace(turns, (share, order, topic))
            else:
                heappop(turns)
                del self._due[topic]
                # The share of the last topic is kept, so that the topic gains nothing if it returns at once.
                self._smallest_share = min(share, turns[0][0]) if turns else share
        return taken

    def _wait(self, _due_ms: float, _order: int, topic: str, copies: int, held: Held) -> None:
        if (waiting := self._due.get(topic)) is None:
            waiting = self._due[topic] = deque()
            heappush(self._turns, (self._smallest_share, next(self._order), topic))
        waiting.append((copies, held))
