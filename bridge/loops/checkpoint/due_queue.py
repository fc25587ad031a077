"""Copies that wait for their moment, and then for their topic's turn. Pure."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush, heapreplace
from itertools import count
from typing import Generic, TypeVar

Held = TypeVar("Held")


class DueQueue(Generic[Held]):
    """What is held, by the moment it is due in Unix ms. What is due is taken by turns of its topics, so that one of
    which much is due at once holds up no other; within a topic the earliest first, and what is due at one moment in
    its order.

    Turns are counted in copies, since a bundle is many: next is the topic that was given the fewest. One that has
    nothing due is not remembered, and begins behind none that waits, but with no more than the one given the fewest.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, str, int, Held]] = []
        self._order = count()
        # What was found due, by topic, with how many copies it is; none is empty.
        self._due: dict[str, deque[tuple[int, Held]]] = {}
        self._turns: list[tuple[int, int, str]] = []  # a heap of those topics, by the copies each was given
        self._given = 0  # what a topic begins with: none that waits was given fewer

    def __len__(self) -> int:
        return len(self._heap) + sum(map(len, self._due.values()))

    def add(self, due_ms: float, topic: str, held: Held, copies: int = 1) -> None:
        heappush(self._heap, (due_ms, next(self._order), topic, copies, held))

    def next_due_ms(self) -> float | None:
        """The earliest moment of all that was not found due yet; None: there is nothing else."""
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: float, most: int) -> list[Held]:
        """What is due, up to `most` copies, by turns where there are more. The last may be a bundle, and go beyond."""
        heap, turns = self._heap, self._turns
        if not turns:
            if not heap or heap[0][0] > now_ms:
                return []
            found: list[tuple[float, int, str, int, Held]] = []
            room = most
            while heap and heap[0][0] <= now_ms and room > 0:
                found.append(heappop(heap))
                room -= found[-1][3]
            if not heap or heap[0][0] > now_ms:
                return [one[4] for one in found]
            for one in found:
                self._wait(*one)
        while heap and heap[0][0] <= now_ms:
            self._wait(*heappop(heap))
        taken: list[Held] = []
        while turns and most > 0:
            given, order, topic = turns[0]
            waiting = self._due[topic]
            going_on = True
            while going_on:
                copies, held = waiting.popleft()
                taken.append(held)
                self._given = given
                given += copies
                most -= copies
                # Alone it need not be looked whose turn is next.
                going_on = len(turns) == 1 and bool(waiting) and most > 0
            if waiting:
                heapreplace(turns, (given, order, topic))
            else:
                heappop(turns)
                del self._due[topic]
                # It is not to begin anew with what it was given forgotten: none that waits is behind this.
                self._given = min(given, turns[0][0]) if turns else given
        return taken

    def _wait(self, _due_ms: float, _order: int, topic: str, copies: int, held: Held) -> None:
        if (waiting := self._due.get(topic)) is None:
            waiting = self._due[topic] = deque()
            heappush(self._turns, (self._given, next(self._order), topic))
        waiting.append((copies, held))
