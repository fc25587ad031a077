"""Checks every connection once a second, and makes room for new ones."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

_SWEEP_S = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The limits of connections. `connections`: the most open connections. `unread_bytes`: the most bytes of answers
    that clients have not read. `head_bytes`: the most bytes of a request's head, and of the lines around the chunks of
    a body; the path with its query may use a quarter of them. `client_timeout_s`: how long a client may make no
    progress. `keep_alive_s`: how long a connection may wait for its next request."""

    connections: int
    unread_bytes: int
    head_bytes: int
    client_timeout_s: float
    keep_alive_s: float


class Phase(Enum):
    """What a connection waits for. In `ANSWER` it waits for the bridge, in all other phases for the client: for a part
    of a request, for reading its answer, or for closing."""

    FIRST = auto()  # the first byte of its first request
    HEAD = auto()  # the rest of a head
    BODY = auto()  # the rest of a body
    READING = auto()  # the client reads its answer
    IDLE = auto()  # the next request
    END = auto()  # the client closes after the last answer
    ANSWER = auto()  # the bridge answers


class Sweep:
    """Checks every connection once a second while there are any."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._watching = False

    def watch(self, connections: set[Any], loop: asyncio.AbstractEventLoop) -> None:
        if not self._watching:
            self._watching = True
            loop.call_later(_SWEEP_S, self._check_all, connections, loop)

    def has_room(self, connections: set[Any]) -> bool:
        """Returns whether one more connection may open. At the limit, closes idle connections to make room. Connections
        that have sent no request go first, then those that have been idle for longest."""
        if len(connections) < self._limits.connections:
            return True
        idle = [connection for connection in connections if connection.phase in (Phase.FIRST, Phase.IDLE, Phase.END)]
        # Many at once, so that the next new connections need no search.
        for connection in sorted(idle, key=_use)[: self._limits.connections // 16 + 1]:
            connections.discard(connection)
            connection.transport.close()
        return bool(idle)

    def _check_all(self, connections: set[Any], loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        for connection in list(connections):
            connection.check(now_s)
        self._watching = bool(connections)
        if self._watching:
            loop.call_later(_SWEEP_S, self._check_all, connections, loop)


def _use(connection: Any) -> tuple[bool, float]:
    """Returns a sort key: connections that have sent no request come first, then the connections that have been idle
    for longest."""
    return (connection.scope is not None, connection.since_s)
