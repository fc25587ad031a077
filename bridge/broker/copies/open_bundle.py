"""Takes the copies of a bundle out when they are due, and those that are far from it to be packed again. Pure."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final

from bridge.broker.copies.bundles import Entry, Index
from bridge.broker.copies.windows import NEAR_MS
from bridge.model.message import CopyKind

EARLY_AT_MOST_MS: Final = 5_000
"""The wheel brings a copy a fifth of a second early at most. If Redis says that it is earlier than this, the clock of
Redis was set back. Then the checkpoint asks again after this time: parked until the moment that Redis says, the message
would be late by as much as the clock was wrong."""

_STEP_MS: Final = 1_000  # a clock that is wrong by less is waited for

_TOGETHER_MS: Final = 10  # a batch takes about as long, so these copies are taken with one look


@dataclass(slots=True)
class OpenBundle:
    """The copies of a bundle that are not taken yet. They are bytes, which take a fraction of the memory.

    `tag` acknowledges the bundle. `topic`, `kind`: of its copies. `stranded_ms`: the rest of its key's delay, if a slot
    was missing on its way. `body`: of the bundle. `waited_ms`: as of `Due`, of the earliest copy. `parked_kind`: for
    those that are packed again.
    """

    tag: int
    topic: str
    kind: CopyKind
    stranded_ms: int
    index: Index
    body: bytes
    waited_ms: int | None = None
    _at: int = 0
    _end: int = field(init=False)
    _behind_ms: float = 0.0
    parked_kind: CopyKind = field(init=False)

    def __post_init__(self) -> None:
        self._end = len(self.index.dues_ms)
        self.parked_kind = self.kind

    def arrived(self, now_ms: float, short_ms: int) -> None:
        """Notes when the bundle came. The earliest copy is due then, if it has waited for its whole delay.

        If it seems to be due much later, the clock is behind the one that wrote the moments. The copies are taken all
        the same, and Redis decides about each. If the bundle seems late, the clock may be ahead. Then nobody knows
        what is left of each delay. `short_ms`: the wheel brings a copy early by so much at most.
        """
        if self.waited_ms is None:
            return
        early_ms = self.index.dues_ms[0] - now_ms
        if early_ms > short_ms + _STEP_MS:
            self._behind_ms = early_ms - short_ms
        elif early_ms < -_STEP_MS and self.kind is not CopyKind.LEASE:
            self.parked_kind = CopyKind.HOLD

    def waited_by_ms(self, due_ms: int) -> int | None:
        """Returns how long a copy that is due now has waited, as of `Due`."""
        return None if self.waited_ms is None else self.waited_ms + max(0, due_ms - self.index.dues_ms[0])

    @property
    def left(self) -> int:
        """How many copies are left."""
        return self._end - self._at

    @property
    def count(self) -> int:
        """How many copies are due at nearly the moment of the next one."""
        moment_ms = self.index.dues_ms[self._at]
        return bisect_right(self.index.dues_ms, moment_ms + _TOGETHER_MS, self._at, self._end) - self._at

    def left_ms(self, now_ms: float) -> float:
        """Returns what is left until the next copy is due."""
        return self.index.dues_ms[self._at] - self._now_ms(now_ms)

    def due(self, now_ms: float) -> list[Entry]:
        """Takes the copies that are due."""
        end = bisect_right(self.index.dues_ms, self._now_ms(now_ms), self._at, self._end)
        taken = self._entries(self._at, end)
        self._at = end
        return taken

    def far(self, now_ms: float) -> list[tuple[Entry, float]]:
        """Takes the copies that are not due soon. Returns each with what is left of its delay, in ms."""
        at_ms = self._now_ms(now_ms)
        start = bisect_right(self.index.dues_ms, at_ms + NEAR_MS, self._at, self._end)
        taken = self._entries(start, self._end)
        self._end = start
        return [(entry, entry.due_ms - at_ms) for entry in taken]

    def rest(self, now_ms: float) -> list[tuple[Entry, float]]:
        """Takes all copies. Returns each with what is left of its delay, in ms."""
        at_ms = self._now_ms(now_ms)
        taken = self._entries(self._at, self._end)
        self._at = self._end
        return [(entry, max(0.0, entry.due_ms - at_ms)) for entry in taken]

    def _now_ms(self, now_ms: float) -> float:
        return max(now_ms + self._behind_ms, self.index.dues_ms[0] - EARLY_AT_MOST_MS - self.stranded_ms)

    def _entries(self, start: int, end: int) -> list[Entry]:
        dues_ms, offsets, body = self.index.dues_ms, self.index.offsets, self.body
        return [Entry(dues_ms[at], body[offsets[at] : offsets[at + 1]]) for at in range(start, end)]
