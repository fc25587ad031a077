"""Defines the states of a loop or server that health reports as a part. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bridge.model.durations import format_instant


@dataclass(frozen=True, slots=True)
class Starting:
    """The state of a part about which nothing is known yet."""


@dataclass(frozen=True, slots=True)
class Ok:
    """The state of a part that works."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The state of a part that tries again, because a server is away. `reason`: the error's text. `since_ms`: since
    when, in Unix ms."""

    reason: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The state of a part that met a bug of the bridge, or data that it can't read. `error`: the class name of the
    latest error. The error's text is left out, because it may hold data of clients. `since_ms`: when the first error
    came, in Unix ms. `count`: how many errors came since then, the first one included."""

    error: str
    since_ms: int
    count: int

    @property
    def times(self) -> str:
        return "once" if self.count == 1 else f"{self.count:,} times"


PartState = Starting | Ok | Waiting | Failed

STARTING: Final = Starting()
OK: Final = Ok()


def text_of(state: PartState) -> str:
    """Returns the state as health shows it: "ok", or the reason why not."""
    match state:
        case Starting():
            return "starting"
        case Ok():
            return "ok"
        case Waiting(reason):
            return f"waiting: {reason}"
        case Failed(error, since_ms):
            return f"failed: {error} {state.times} since {format_instant(since_ms)}"


def worst(states: Iterable[PartState]) -> PartState:
    """Returns the worst of the states; `Starting` if there is none. Best to worst: `Ok`, `Starting`, `Waiting`,
    `Failed`."""
    return max(states, key=_badness, default=STARTING)


def _badness(state: PartState) -> int:
    match state:
        case Ok():
            return 0
        case Starting():
            return 1
        case Waiting():
            return 2
        case Failed():
            return 3
