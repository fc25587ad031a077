"""A look at every connection once a second, and room for new ones."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

_SWEEP_S = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """`head_bytes` also bounds what is between and behind the chunks of a body. A target may have a quarter of it."""

    connections: int
    head_bytes: int
    client_timeout_s: float
    keep_alive_s: float


class Phase(Enum):
    """What a connection waits for."""

    FIRST = auto()  # byte of its first request
    HEAD = auto()
    BODY = auto()
    READING = auto()  # the client, to take its answer
    IDLE = auto()
    END = auto()  # the client, to see the last answer
    ANSWER = auto()  # of ours


class Sweep:
    """Looks at every connection once a second, while there are any."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._watching = False

    def watch(self, connections: set[Any], loop: asyncio.AbstractEventLoop) -> None:
        if not self._watching:
            self._watching = True
            loop.call_later(_SWEEP_S, self._look, connections, loop)

    def has_room(self, connections: set[Any]) -> bool:
        """Whether one more connection may be opened; those nobody waits on are closed for it, unused ones first."""
        if len(connections) < self._limits.connections:
            return True
        idle = [one for one in connections if one.phase in (Phase.FIRST, Phase.IDLE, Phase.END)]
        # Many at once, so that the next ones need not look again.
        for one in sorted(idle, key=_least_missed)[: self._limits.connections // 16 + 1]:
            connections.discard(one)
            one.transport.close()
        return bool(idle)

    def _look(self, connections: set[Any], loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        for one in list(connections):
            one.look(now_s)
        self._watching = bool(connections)
        if self._watching:
            loop.call_later(_SWEEP_S, self._look, connections, loop)


def _least_missed(one: Any) -> tuple[bool, float]:
    return (one.scope is not None, one.since_s)
