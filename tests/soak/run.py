"""Does a whole soak: rounds of load, each followed by a rest until what expires has expired."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.soak.allowances import LABELLED, allowed
from tests.soak.load import load
from tests.soak.look import look
from tests.soak.stage import Stage, running
from tests.soak.state import Allowed, Kind, State, remainders, unfinished
from tests.timelines import watched_timelines
from tests.waiting import pause

ROUNDS: Final = 2
_REST_S: Final = 90.0  # the longest of what expires: a connection to a receiver, a minute
_LOOK_S: Final = 3.0
_ALIKE: Final = 3  # looks; RabbitMQ's management counts every five seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    minutes: float
    calls_per_s: float
    seed: int

    def __str__(self) -> str:
        return f"seed {self.seed}, {ROUNDS} rounds in {self.minutes:g} minutes, {self.calls_per_s:g} calls a second"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`states`: after each round. `left`: what the rounds left, timelines that no header explains, and the errors of
    the bridge."""

    states: list[State]
    left: list[str]
    busy: int

    def as_json(self) -> dict[str, Any]:
        """How many names each kind has, and the bytes and blocks of memory, after each round."""
        rounds = [
            {**{str(kind): sum(state[kind].values()) for kind in Kind}, **state[Kind.MEMORY]} for state in self.states
        ]
        return {"rounds": rounds, "left": self.left, "busy": self.busy}


async def soak(folder: Path, wanted: Wanted, said: Callable[[str], None]) -> Outcome:
    """Starts private servers in the folder, and kills them at the end. Calls `said` with lines about the progress.

    The first round also fills caches and pools. So the state after the second round is compared with that after the
    first.

    Raises:
        LocalError: a server did not start.
        WrongAnswer
    """
    said(str(wanted))
    async with running(folder) as stage:
        states: list[State] = []
        left: list[str] = []
        busy = 0
        for number in range(1, ROUNDS + 1):
            seconds = wanted.minutes * 60 / ROUNDS
            async with watched_timelines(stage.redis.url) as misfits:
                busy += await load(
                    stage, f"round{number}", calls_per_s=wanted.calls_per_s, seconds=seconds, seed=wanted.seed
                )
            left += sorted(misfits)
            said(f"round {number}: every message has ended; waiting for what expires")
            state, remainder = await _rest(stage, states[-1] if states else None)
            states.append(state)
            left += remainder
        return Outcome(states, [*left, *stage.bridge.errors()], busy)


async def _rest(stage: Stage, former: State | None) -> tuple[State, list[str]]:
    """Looks until the state is the former one, or without one, until it no longer changes. Returns it with what is
    left when the patience ends."""
    give_up_at_s = asyncio.get_running_loop().time() + _REST_S
    alike, before = 0, None
    while True:
        state = await look(stage)
        if former is not None:
            left = remainders(former, state, _allowed(former, state))
            done = not left
        else:
            left = unfinished(state)
            changed = before is None or bool(left or remainders(before, state, _allowed(before, state)))
            alike = 0 if changed else alike + 1
            done = alike == _ALIKE
        if done or asyncio.get_running_loop().time() > give_up_at_s:
            return state, left
        before = state
        await pause(_LOOK_S)


def _allowed(former: State, state: State) -> Allowed:
    labels = state[Kind.ENTRIES].get(LABELLED, 0) - former[Kind.ENTRIES].get(LABELLED, 0)
    return partial(allowed, labels=labels)
