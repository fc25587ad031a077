"""Decides which ticks of a schedule become messages. Pure.

A schedule has a position: the fate of each tick up to it is decided. A plan decides those from the position up to a
little ahead of now, and names the new position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from bridge.model.message import Message, State
from bridge.service.schedules.spans import Span
from bridge.service.schedules.timing import Tick, Timing, between, latest, ticks

LEAD_MS: Final = 5_000
"""How far ahead of its moment a tick is sent. The wheel delivers it exactly. A planner that dies leaves its schedules
to another one in less time."""

LOOK_MS: Final = 500
"""The same where a tick may overlap the former one: it has to know late whether that one has ended."""

GRACE_MS: Final = 5_000
"""A tick that is late by no more is not missed."""

MOST_TICKS: Final = 100
"""The ticks that a plan sends. The next plan goes on behind them."""

MOST_MISSED: Final = 1_000

_STEP_MS: Final = 1_000  # a clock that is wrong by less is waited for


class Missed(StrEnum):
    """What becomes of ticks whose moment passed while nobody planned them."""

    SKIP = "skip"
    LAST = "last"
    ALL = "all"


class Overlap(StrEnum):
    """What becomes of a tick while the message of the former one has not ended."""

    ALLOW = "allow"
    SKIP = "skip"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """`missed_max`: the most missed ticks that are sent with `Missed.ALL`, the latest."""

    missed: Missed = Missed.LAST
    missed_max: int = 100
    overlap: Overlap = Overlap.ALLOW


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """`ticks`: to be sent. `position_ms`: once they are sent. `missed`: missed ticks that are left out, as far as
    somebody counted them. `overlapped`: ticks left out because of the former one."""

    ticks: Sequence[Tick]
    position_ms: int
    missed: int = 0
    overlapped: int = 0


def plan(timing: Timing, rules: Rules, name: str, position_ms: int, now_ms: int, *, former_lives: bool) -> Plan:
    """Plans the ticks from the position on. `former_lives`: whether the message of the former tick has not ended."""
    span = Span(position_ms + 1, now_ms + lead_ms(rules))
    planned = _plan(timing, rules, name, span, now_ms, former_lives=former_lives)
    if len(planned.ticks) > MOST_TICKS:
        ticks = planned.ticks[:MOST_TICKS]
        return replace(planned, ticks=ticks, position_ms=ticks[-1].at_ms)
    return planned


def owed(timing: Timing, rules: Rules, name: str, position_ms: int, now_ms: int, *, former_lives: bool) -> Plan:
    """Plans the ticks from the position up to now, of a schedule whose timing is another one from now on."""
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
    """Returns the latest position that a plan can have noted by now. A later one is of a clock that was ahead."""
    return now_ms + lead_ms(rules) + _STEP_MS


def wake_ms(timing: Timing, rules: Rules, name: str, position_ms: int) -> int | None:
    """When to plan next; None: no tick follows."""
    tick = next(ticks(timing, name, position_ms), None)
    return None if tick is None else tick.at_ms - lead_ms(rules)


def is_decided(message: Message | None, since_ms: int) -> bool:
    """Whether a tick needs no send, as it has this message. `since_ms`: when the schedule was changed or resumed last.
    A message that was deleted before does not count: a pause or a change has deleted it."""
    if message is None:
        return False
    return not (message.record.state is State.DELETED and message.record.created_ms <= since_ms)


def _most(rules: Rules) -> int:
    return rules.missed_max if rules.missed is Missed.ALL else 1
