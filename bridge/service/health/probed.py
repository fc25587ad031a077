"""Probes a server, for all callers that ask whether a send would succeed now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Final

from bridge.broker.declared.findings import Finding
from bridge.model import log_scope
from bridge.model.errors import BridgeError
from bridge.service.health.outage import Outage

_FRESH_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of a probe. `state`: "ok" if a send would succeed, or the reason why not. `findings`: about parts of
    the server that fail while other parts work."""

    state: str
    findings: Sequence[Finding] = ()


class Probed:
    """Probes one server. Callers within half a second share a probe. So there are at most two probes a second, and one
    more after each call of the server that failed or timed out."""

    def __init__(
        self,
        probe: Callable[[], Awaitable[Sequence[Finding]]],
        troubled_s: Callable[[], float],
        *,
        server: str,
        part: str,
        within_s: float,
    ) -> None:
        """`probe`: does what a send does; it raises a BridgeError if a send would fail, and returns findings.
        `troubled_s`: returns the moment of `monotonic()` at which a call of the server last failed or timed out.
        `server`: its name in texts. `part`: its name among the parts. `within_s`: how long a send may take."""
        self.outage = Outage(part)
        self.troubled_s = troubled_s
        self._probe = probe
        self._server = server
        self._within_s = within_s
        self._ended_s = -inf
        self._running: asyncio.Task[Probe] | None = None

    async def result(self) -> Probe:
        """Returns a result that is at most half a second old, and newer than the last call that failed or timed out.
        Takes no longer than a send may take. Notes the result in `outage`."""
        running, fresh_since_s = self._running, max(monotonic() - _FRESH_S, self.troubled_s())
        if running is None or (running.done() and self._ended_s <= fresh_since_s):
            running = self._running = log_scope.shared_task(self._run())
        await asyncio.wait((running,), timeout=self._within_s)
        silent = Probe(f"{self._server} did not answer within {self._within_s:g} s")
        result = running.result() if running.done() else silent
        self.outage.seen(result.state, monotonic())
        return result

    def renew(self) -> None:
        """Makes the next `result` probe again."""
        self._ended_s = -inf

    def end(self) -> None:
        """Ends a probe that is under way."""
        if self._running is not None:
            self._running.cancel()

    async def _run(self) -> Probe:
        try:
            return Probe("ok", await self._probe())
        except BridgeError as error:
            return Probe(str(error))
        finally:
            self._ended_s = monotonic()
