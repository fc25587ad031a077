"""Decides which ticks of a schedule become messages. A tick is one moment at which the schedule sends its message.
Pure.

A schedule has a position, a moment. For every tick up to this moment, the bridge has decided whether to send it. A plan
makes this decision for the ticks from the position up to a little ahead of now, and returns the new position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from bridge.model.clock_step import STEP_MS
from bridge.model.message import Message, State
from bridge.service.schedules.spans import Span
from bridge.service.schedules.timing import Tick, Timing, between, latest, ticks

LEAD_MS: Final = 5_000
"""How many ms ahead of its moment a tick is sent; the wheel delivers it at the exact moment. If a planner dies, another
one takes over its schedules in less time than this."""

LOOK_MS: Final = 500
"""How many ms ahead of its moment a tick is sent if it must not overlap the previous tick. It is short, as the previous
tick's message may end late."""

GRACE_MS: Final = 5_000
"""A tick that is late by no more than this, in ms, does not count as missed."""

MOST_TICKS: Final = 100
"""The most ticks that a plan sends. The next plan continues after them."""

MOST_MISSED: Final = 1_000


class Missed(StrEnum):
    """Selects which missed ticks are sent: none (`skip`), the latest one (`last`), or the latest `missed_max` ones
    (`all`). A tick is missed if its moment passed while no process planned the schedule."""

    SKIP = "skip"
    LAST = "last"
    ALL = "all"


class Overlap(StrEnum):
    """What happens to a tick while the message of the previous tick has not ended: it is sent (`allow`) or left out
    (`skip`)."""

    ALLOW = "allow"
    SKIP = "skip"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """The rules for missed and overlapping ticks. `missed_max`: with `Missed.ALL`, at most this many missed ticks are
    sent, the latest ones."""

    missed: Missed = Missed.LAST
    missed_max: int = 100
    overlap: Overlap = Overlap.ALLOW


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The result of planning. `ticks`: the ticks to send. `position_ms`: the schedule's new position once these ticks
    are sent, in Unix ms. `missed`: how many missed ticks are left out; a lower bound, as planning may not see all of
    them. `overlapped`: how many ticks are left out because the previous tick's message has not ended."""

    ticks: Sequence[Tick]
    position_ms: int
    missed: int = 0
    overlapped: int = 0


def plan(timing: Timing, rules: Rules, name: str, position_ms: int, now_ms: int, *, former_lives: bool) -> Plan:
    """Returns the plan of the ticks after `position_ms`, up to a little ahead of `now_ms` (`lead_ms`). Both are Unix
    ms. `name`: the schedule's name. `former_lives`: whether the message of the previous tick has not ended."""
    span = Span(position_ms + 1, now_ms + lead_ms(rules))
    planned = _plan(timing, rules, name, span, now_ms, former_lives=former_lives)
    if len(planned.ticks) > MOST_TICKS:
        ticks = planned.ticks[:MOST_TICKS]
        return replace(planned, ticks=ticks, position_ms=ticks[-1].at_ms)
    return planned


def owed(timing: Timing, rules: Rules, name: str, position_ms: int, now_ms: int, *, former_lives: bool) -> Plan:
    """Returns the plan of the last ticks of a schedule's old timing, after `position_ms` and up to `now_ms`, where the
    new timing begins. Both are Unix ms. `name`: the schedule's name. `former_lives`: whether the message of the
    previous tick has not ended."""
    return _plan(timing, rules, name, Span(position_ms + 1, now_ms), now_ms, former_lives=former_lives)


def _plan(timing: Timing, rules: Rules, name: str, span: Span, now_ms: int, *, former_lives: bool) -> Plan:
    position_ms, until_ms = span.from_ms - 1, span.to_ms
    if until_ms <= position_ms:
        return Plan(ticks=(), position_ms=position_ms)
    # A tick before this moment is missed, whatever its jitter.
    missed_ms = now_ms - GRACE_MS - timing.jitter_ms - 1
    wanted, missed = latest(timing, name, position_ms, missed_ms, _most(rules)) if missed_ms > position_ms else ([], 0)
    recent = list(between(timing, name, max(position_ms, missed_ms), until_ms))
    late = [*wanted, *(tick for tick in recent if tick.due_ms < now_ms - GRACE_MS)]
    kept = late[-_most(rules) :] if rules.missed is not Missed.SKIP else []
    missed += len(late) - len(kept)
    chosen = sorted([*kept, *(tick for tick in recent if tick.due_ms >= now_ms - GRACE_MS)])
    if rules.overlap is Overlap.SKIP:
        sent = [] if former_lives else chosen[:1]
        return Plan(ticks=sent, position_ms=until_ms, missed=missed, overlapped=len(chosen) - len(sent))
    return Plan(ticks=chosen, position_ms=until_ms, missed=missed)


def lead_ms(rules: Rules) -> int:
    return LOOK_MS if rules.overlap is Overlap.SKIP else LEAD_MS


def latest_position_ms(rules: Rules, now_ms: int) -> int:
    """Returns the latest position that a plan can have at `now_ms`, in Unix ms. If a schedule has a later position,
    Redis' clock was ahead when the schedule was planned."""
    return now_ms + lead_ms(rules) + STEP_MS


def wake_ms(timing: Timing, rules: Rules, name: str, position_ms: int) -> int | None:
    """Returns when to plan a schedule next, in Unix ms: `lead_ms` before its first tick after `position_ms`. None: no
    tick follows. `position_ms`: the bridge has decided about all ticks up to this moment, in Unix ms."""
    tick = next(ticks(timing, name, position_ms), None)
    return None if tick is None else tick.at_ms - lead_ms(rules)


def is_decided(message: Message | None, since_ms: int) -> bool:
    """Whether a tick needs no send, because it has a message already. `message`: the message under the tick's id; None:
    there is none. `since_ms`: when the schedule was last made, changed, paused or resumed. A deleted message does not
    count if it was created at `since_ms` or earlier: a pause or a change of the schedule has deleted it."""
    if message is None:
        return False
    return not (message.record.state is State.DELETED and message.record.created_ms <= since_ms)


def _most(rules: Rules) -> int:
    return rules.missed_max if rules.missed is Missed.ALL else 1
