"""Probes a server, for all callers that ask whether a send would succeed now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
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
    """The result of a probe. `state`: "ok" if a send would succeed, or the reason why not. `findings`: faults of the
    server that make only some calls fail, such as those about some queues."""

    state: str
    findings: Sequence[Finding] = ()


class _Run:
    """One probe, which several calls wait for."""

    def __init__(self, probing: Coroutine[None, None, Probe]) -> None:
        self.began_s = monotonic()
        self.task = log_scope.shared_task(probing)

    async def until(self, by_s: float) -> Probe | None:
        """Waits for the end of the probe, at most until `by_s`, a moment of `monotonic()`. Returns the result; None if
        the probe has not ended by then."""
        await asyncio.wait((self.task,), timeout=max(0.0, by_s - monotonic()))
        return self.task.result() if self.task.done() else None


class Probed:
    """Probes one server. Callers share a probe, and a good result serves later callers for half a second. So while all
    is well there are at most two probes a second. A bad result serves only callers that asked before its probe began.
    For any later caller the server may have come back."""

    def __init__(
        self,
        probe: Callable[[], Awaitable[Sequence[Finding]]],
        troubled_s: Callable[[], float],
        *,
        server: str,
        part: str,
        within_s: float,
    ) -> None:
        """`probe`: tries what a send does, and returns findings; raises a BridgeError if a send would fail.
        `troubled_s`: returns the moment of `monotonic()` at which a call to the server last failed or timed out.
        `server`: the server's name in error texts. `part`: the server's name in `Health.parts`. `within_s`: the time
        limit of a send in seconds."""
        self.outage = Outage(part)
        self.troubled_s = troubled_s
        self._probe = probe
        self._server = server
        self._within_s = within_s
        self._ended_s = -inf
        self._latest: _Run | None = None

    async def result(self) -> Probe:
        """Returns a good result that is at most half a second old, if no call has failed or timed out since its probe
        began. Otherwise returns the result of a probe that began after this call. Waits no longer than a send may take
        (`within_s`). Passes the result to `outage`, which logs outages."""
        asked_s = monotonic()
        by_s = asked_s + self._within_s
        run = self._latest
        if run is None or (run.task.done() and self._ended_s <= asked_s - _FRESH_S):
            run = self._begun()
        result = await run.until(by_s)
        is_doubtful = result is not None and (result.state != "ok" or self.troubled_s() >= run.began_s)
        if is_doubtful and run.began_s < asked_s:
            # Another caller may have begun a probe since.
            later = self._latest
            run = later if later is not None and later.began_s >= asked_s else self._begun()
            result = await run.until(by_s)
        found = result or Probe(f"{self._server} did not answer within {self._within_s:g} s")
        self.outage.seen(found.state, monotonic())
        return found

    def _begun(self) -> _Run:
        self._latest = _Run(self._run())
        return self._latest

    def renew(self) -> None:
        """Discards the latest result, so that the next call of `result` begins a new probe."""
        self._ended_s = -inf

    def end(self) -> None:
        """Cancels the probe that is under way, if there is one."""
        if self._latest is not None:
            self._latest.task.cancel()

    async def _run(self) -> Probe:
        try:
            return Probe("ok", await self._probe())
        except BridgeError as error:
            return Probe(str(error))
        finally:
            self._ended_s = monotonic()
