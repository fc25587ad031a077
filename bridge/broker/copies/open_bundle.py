"""Takes copies out of an opened bundle: due copies, and copies that go into new bundles because they are far from due.
Pure."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final

from bridge.broker.copies.bundles import Entry, Index
from bridge.broker.copies.windows import NEAR_MS
from bridge.model.clock_step import STEP_MS
from bridge.model.message import CopyKind

EARLY_AT_MOST_MS: Final = 5_000
"""The longest wait, in ms, for a copy that seems to be early by Redis' clock. The wheel brings a copy a fifth of a
second early at most. If a copy seems to be more than 5 s early, Redis' clock was set back. Then the checkpoint asks
Redis again after 5 s. If the copy waited until its due moment by that clock, it would be late by as much as the clock
is wrong."""

_TOGETHER_MS: Final = 10  # a batch takes about as long, so copies that are due within it are taken together


@dataclass(slots=True)
class OpenBundle:
    """The copies of a bundle that are not taken yet. They stay encoded, as decoded copies take far more memory.

    `tag`: the bundle's delivery tag. `topic`, `kind`: the topic and the kind of all copies. `stranded_ms`: the delay
    that was left when a slot on the bundle's way was missing; 0 if none was. `body`: the bundle's body. `waited_ms`:
    the whole delay of the earliest copy, in ms, if the copy has waited it. None: the copy may have waited less.
    `parked_kind`: the kind that copies get when they go into a new bundle.

    The argument `own_ms` of the methods is a moment of this process's monotonic clock, in ms; most often it is now.
    Redis' clock may be set between two calls, so it can't measure the time between them.
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
    _offset_ms: float = 0.0  # between the clock by which copies are taken and the monotonic one
    _latest_ms: float = 0.0  # the latest moment by that clock
    parked_kind: CopyKind = field(init=False)

    def __post_init__(self) -> None:
        self._end = len(self.index.dues_ms)
        self.parked_kind = self.kind

    @property
    def clock(self) -> int:
        """The difference between the clock by which the copies are taken (`arrived`) and this process's monotonic
        clock, in whole seconds. Copies of bundles with equal differences may go into one new bundle."""
        return round(self._offset_ms / STEP_MS)

    def arrived(self, own_ms: float, now_ms: float, short_ms: int, *, in_queue_ms: float, step_ms: float) -> None:
        """Decides, when the bundle is opened, by which clock its copies are taken. `own_ms`: now, by this process's
        monotonic clock, in ms. `now_ms`: now, by Redis' clock, in Unix ms. `short_ms`: an upper bound, in ms: how early
        a copy leaves the wheel. `in_queue_ms`: a lower bound, in ms: how long the bundle has waited in the checkpoint's
        queue. `step_ms`: by how many ms Redis' clock has jumped ahead since the due moments were written.

        If the earliest copy has waited its whole delay, this copy was due when the bundle came. If it seems to be due
        much later, Redis' clock was set back after the due moments were written. In this case, and after a jump ahead,
        the bundle uses a corrected clock. Redis then decides about each copy. If the bundle is late for another reason,
        its copies have waited too long. They go into new bundles with the kind `HOLD`; lease copies keep their kind.
        """
        corrected_ms = now_ms
        if self.waited_ms is not None:
            early_ms = self.index.dues_ms[0] - now_ms
            if early_ms > short_ms + STEP_MS:
                corrected_ms += early_ms - short_ms + in_queue_ms
            elif step_ms > 2 * STEP_MS:
                corrected_ms -= step_ms + short_ms
            elif early_ms < -STEP_MS and self.kind is not CopyKind.LEASE:
                self.parked_kind = CopyKind.HOLD
        self._offset_ms = corrected_ms - own_ms

    def waited_by_ms(self, due_ms: int) -> int | None:
        """Returns the whole delay of a copy, in ms, if the copy has waited it in the wheel. None: the copy may have
        waited less. `due_ms`: when the copy was due, in Unix ms. The latest call of `due` or `rest` must have taken
        this copy."""
        if self.waited_ms is None or due_ms > max(self._latest_ms, self.index.dues_ms[0]):
            return None
        return self.waited_ms + max(0, due_ms - self.index.dues_ms[0])

    @property
    def left(self) -> int:
        """How many copies are not taken yet."""
        return self._end - self._at

    @property
    def count(self) -> int:
        """How many copies are taken together: the next copy, and the copies that are due within 10 ms after it. Not to
        be read when no copy is left."""
        moment_ms = self.index.dues_ms[self._at]
        return bisect_right(self.index.dues_ms, moment_ms + _TOGETHER_MS, self._at, self._end) - self._at

    def left_ms(self, own_ms: float) -> float:
        """Returns how many ms there are from `own_ms` until the next copy is due; 0 or less: it is due. `own_ms`: a
        moment of this process's monotonic clock, in ms. Not to be called when no copy is left."""
        return self.index.dues_ms[self._at] - self._now_ms(own_ms)

    def due(self, own_ms: float) -> list[Entry]:
        """Takes the copies that are due at `own_ms`, a moment of this process's monotonic clock in ms. Returns them,
        the earliest first."""
        end = bisect_right(self.index.dues_ms, self._now_ms(own_ms), self._at, self._end)
        taken = self._entries(self._at, end)
        self._at = end
        return taken

    def far(self, own_ms: float) -> list[tuple[Entry, float]]:
        """Takes the copies that are due more than a second (`NEAR_MS`) after `own_ms`, a moment of this process's
        monotonic clock in ms. Returns each copy with the ms from `own_ms` until it is due."""
        at_ms = self._now_ms(own_ms)
        start = bisect_right(self.index.dues_ms, at_ms + NEAR_MS, self._at, self._end)
        taken = self._entries(start, self._end)
        self._end = start
        return [(entry, entry.due_ms - at_ms) for entry in taken]

    def rest(self, own_ms: float) -> list[tuple[Entry, float]]:
        """Takes all copies that are left. Returns each copy with the ms from `own_ms` until it is due; 0: it is due
        already. `own_ms`: a moment of this process's monotonic clock, in ms."""
        at_ms = self._now_ms(own_ms)
        taken = self._entries(self._at, self._end)
        self._at = self._end
        return [(entry, max(0.0, entry.due_ms - at_ms)) for entry in taken]

    def _now_ms(self, own_ms: float) -> float:
        earliest_ms = self.index.dues_ms[0] - EARLY_AT_MOST_MS - self.stranded_ms
        self._latest_ms = max(own_ms + self._offset_ms, earliest_ms)
        return self._latest_ms

    def _entries(self, start: int, end: int) -> list[Entry]:
        dues_ms, offsets, body = self.index.dues_ms, self.index.offsets, self.body
        return [Entry(dues_ms[at], body[offsets[at] : offsets[at + 1]]) for at in range(start, end)]
