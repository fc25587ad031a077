"""Copies that wait for their moment, earliest first. Pure."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

Held = TypeVar("Held")


class Holding(Generic[Held]):
    """A heap of what is held, by the moment it is due in Unix ms; what is due at one moment keeps its order."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Held]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, due_ms: float, held: Held) -> None:
        heappush(self._heap, (due_ms, next(self._order), held))

    def next_due_ms(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: float, most: int) -> list[Held]:
        taken: list[Held] = []
        while self._heap and self._heap[0][0] <= now_ms and len(taken) < most:
            taken.append(heappop(self._heap)[2])
        return taken
