"""Probes a server while it may be away, so that the log has the outage even if nobody asks for the health.

While all calls succeed, this loop probes nothing. It is needed because the other loops do not notice every outage.
While a server is frozen or blocks publishers, they may all go on without an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

from bridge.model.part_state import OK
from bridge.service.health.probed import Probed
from bridge.service.health.supervisor import Status, retrying

_LOOK_S: Final = 1.0


class Lookout:
    def __init__(self, name: str, servers: Sequence[Probed], waits: Callable[[], bool]) -> None:
        """`name`: the lookout's name among the parts. `waits`: returns whether a loop waits for a server."""
        self.status = Status(name, state=OK)
        self._servers = servers
        self._waits = waits

    async def run(self) -> None:
        await retrying(self.status, self.run_once)

    async def run_once(self) -> float:
        """Probes each server that may be away. Returns how many seconds to wait before the next call."""
        since_s, waits = monotonic() - 2 * _LOOK_S, self._waits()
        for probed in self._servers:
            if waits or probed.outage.lasts or probed.troubled_s() > since_s:
                await probed.result()
        return _LOOK_S
