"""Defines when a schedule ticks, and computes its ticks between two moments. Pure.

A tick has two moments. The cron expression or the interval gives `at_ms`, which is part of the message's id. `due_ms`
may be later by the jitter. `due_ms` is always before the next tick's `at_ms`, so ticks come in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from itertools import islice, pairwise, takewhile
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from bridge.model.durations import LATEST_INSTANT_MS, format_instant
from bridge.service.schedules import cron

UTC_NAME: Final = "UTC"
_FIRST_LOOK_MS: Final = 3_600_000
_LOOK_FARTHER: Final = 8


class Tick(NamedTuple):
    at_ms: int
    due_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """The moments at which a schedule ticks: by the expression `cron` in `timezone`, or, if `cron` is None, at
    intervals of `every_ms`. `anchor_ms`: the moment of one tick; the intervals count from it in both directions.
    `start_ms`, `end_ms`: the first and the last moment at which a tick may be; None: no bound. Moments are Unix ms.
    `jitter_ms`: each message is due later by up to this much, but before the next tick."""

    cron: str | None = None
    timezone: str = UTC_NAME
    every_ms: int = 0
    anchor_ms: int = 0
    start_ms: int | None = None
    end_ms: int | None = None
    jitter_ms: int = 0


def ticks(timing: Timing, name: str, after_ms: int) -> Iterator[Tick]:
    """Yields the ticks after `after_ms`, in Unix ms, the earliest first. `name`: the schedule's name, which determines
    the jitter."""
    if timing.start_ms is not None:
        after_ms = max(after_ms, timing.start_ms - 1)
    end_ms = LATEST_INSTANT_MS if timing.end_ms is None else timing.end_ms
    for at_ms, next_ms in takewhile(lambda pair: pair[0] <= end_ms, pairwise(_instants(timing, after_ms))):
        yield Tick(at_ms, at_ms + _jitter_ms(min(timing.jitter_ms, next_ms - at_ms - 1), name, at_ms))


def between(timing: Timing, name: str, after_ms: int, until_ms: int) -> Iterator[Tick]:
    """Yields the ticks after `after_ms` and up to `until_ms`, both in Unix ms. `name`: the schedule's name, which
    determines the jitter."""
    return takewhile(lambda tick: tick.at_ms <= until_ms, ticks(timing, name, after_ms))


def latest(timing: Timing, name: str, after_ms: int, until_ms: int, most: int) -> tuple[list[Tick], int]:
    """Returns the last ticks after `after_ms` and up to `until_ms`, at most `most`. Also returns how many earlier ticks
    of this period the search has seen. Moments are Unix ms. `name`: the schedule's name, which determines the jitter.

    The search looks back step by step, and stops once it has found `most` ticks. So its cost does not depend on the
    length of the period, and it may not see all earlier ticks.
    """
    look_ms = _FIRST_LOOK_MS
    while True:
        from_ms = max(after_ms, until_ms - look_ms)
        found = list(between(timing, name, from_ms, until_ms))
        if len(found) >= most or from_ms == after_ms:
            left_out = max(0, len(found) - most)
            return found[left_out:], left_out
        look_ms *= _LOOK_FARTHER


def following(timing: Timing, name: str, after_ms: int, count: int) -> list[Tick]:
    """Returns the next `count` ticks after `after_ms`, in Unix ms; fewer if the schedule ends. `name`: the schedule's
    name, which determines the jitter."""
    return list(islice(ticks(timing, name, after_ms), count))


def tick_id(name: str, at_ms: int) -> str:
    """Returns the id of a tick's message, such as `nightly@2026-12-01T03:00:00Z`. `name`: the schedule's name."""
    return f"{name}@{format_instant(at_ms).replace('.000Z', 'Z')}"


def _instants(timing: Timing, after_ms: int) -> Iterator[int]:
    if timing.cron is not None:
        yield from (at_s * 1_000 for at_s in cron.matches(timing.cron, _zone(timing.timezone), after_ms // 1_000))
        return
    at_ms = after_ms + timing.every_ms - (after_ms - timing.anchor_ms) % timing.every_ms
    while at_ms <= LATEST_INSTANT_MS:
        yield at_ms
        at_ms += timing.every_ms


def _jitter_ms(window_ms: int, name: str, at_ms: int) -> int:
    """Returns the jitter of a tick: evenly spread from 0 to `window_ms`, and equal in every process."""
    if not window_ms:
        return 0
    digest = sha256(f"{name}@{at_ms}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % (window_ms + 1)


@lru_cache(maxsize=1_024)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)
