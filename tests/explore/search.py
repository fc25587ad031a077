"""Visits the states of a scenario, breadth first. The first broken promise has a shortest path."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from tests.explore.processes import code_suspends
from tests.explore.promises import Broken, check
from tests.explore.rules import Rules
from tests.explore.scenarios import Scenario
from tests.explore.state import State
from tests.explore.stored import Stored


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search found. `depth`: the most events on a shortest path. `closed`: every state was visited. `calls`: the
    scripts that Redis ran. `broken`: the promise that broke, and `path` the events that led there; empty if none
    did."""

    states: int
    depth: int
    closed: bool
    seconds: float
    calls: int
    broken: str = ""
    path: tuple[str, ...] = ()


def search(scenario: Scenario, redis: Stored, *, most: int) -> Found:
    """Visits up to `most` states of a scenario."""
    began_s, calls = perf_counter(), redis.calls
    rules = Rules(scenario, redis)
    first = rules.first
    seen: dict[State, tuple[State, str] | None] = {first: None}
    frontier, depth = [first], 0

    def found(broken: str, path: tuple[str, ...], *, closed: bool) -> Found:
        return Found(
            states=len(seen),
            depth=depth,
            closed=closed,
            seconds=perf_counter() - began_s,
            calls=redis.calls - calls,
            broken=broken,
            path=path,
        )

    with code_suspends():
        while frontier:
            further: list[State] = []
            for state in frontier:
                last = state  # the one that a promise breaks in, or that an event breaks it after
                try:
                    for what, after in rules.successors(state):
                        if after in seen:
                            continue
                        seen[after] = state, what
                        last = after
                        check(after)
                        last = state
                        further.append(after)
                        if len(seen) >= most:
                            return found("", (), closed=False)
                except Broken as broken:
                    return found(str(broken), _path(seen, last), closed=False)
            frontier = further
            depth += bool(further)
        return found("", (), closed=True)


def _path(seen: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    events: list[str] = []
    while (came := seen[state]) is not None:
        state, what = came
        events.append(what)
    return tuple(reversed(events))
