"""Defects that show after a step of a clock."""

from __future__ import annotations

from typing import Final

from tests.explore.planted.defect import EVERY, Change, Planted

_SESSION: Final = "bridge.loops.checkpoint.session:Session"
_VERDICTS: Final = "bridge.loops.checkpoint.verdicts"

PLANTED: Final = (
    Planted(
        name="a held lease copy waits for a clock that was ahead",
        changes=(
            Change(
                f"{_VERDICTS}:after_fire",
                "case FireVerdict.HOLD if outcome.found.state is State.LEASED:",
                "case FireVerdict.HOLD if False:",
            ),
            Change(
                "fire", "if not term then return end", "if not term or (term > 0 and not waited_ms) then return end"
            ),
            Change("fire", "if waited_ms and due_ms - now > math.abs(term) + STEP_MS and", "if false and"),
            Change("bridge.broker.copies.classify:_waited_ms", "if left_ms or asked or kind", "if left_ms or kind"),
        ),
        mended="f84e65f9",
        simulated=False,
    ),
    Planted(
        name="a due copy waits for a clock that was set back",
        changes=(
            Change(
                f"{_VERDICTS}:after_fire",
                "left_at_most_ms = left_at_most(copy, outcome.found) + stranded_ms",
                "left_at_most_ms = outcome.extra",
            ),
            Change(f"{_SESSION}._hold", "_own_ms()", "self._store.clock.now_ms()"),
            Change(f"{_SESSION}._next_due", "now_ms = _own_ms()", "now_ms = self._store.clock.now_ms()"),
            Change(f"{_SESSION}._finish_read", "now_ms = _own_ms()", "now_ms = self._store.clock.now_ms()"),
            Change(
                f"{_SESSION}._finish_opened",
                "self._finish_read(consumer, until_ms)",
                "self._finish_read(consumer, self._store.clock.now_ms() + _ENDED_WITHIN_MS)",
            ),
        ),
        mended="89086ea5",
    ),
    Planted(
        name="a ready copy waits for a clock that was set back",
        changes=(
            Change(
                "bridge.service.pulling.leasing:_Lease.after",
                "left_ms = min(outcome.extra, left_at_most(self.copy, outcome.found))",
                "left_ms = outcome.extra",
            ),
        ),
        mended="a4c59dc2",
    ),
    Planted(
        name="a former message of an id comes again if the clock was set back",
        changes=(
            Change(
                EVERY,
                "or is_known(known(r), created_ms) then return false end",
                "or (created_ms <= r[CREATED] and is_known(known(r), created_ms)) then return false end",
            ),
            Change(
                "superseded",
                "or not is_known(known(r), created_ms)",
                "or created_ms > r[CREATED] or not is_known(known(r), created_ms)",
            ),
        ),
        mended="41dd1f45",
    ),
)
