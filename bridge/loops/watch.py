"""Inspects RabbitMQ and Redis regularly, declares objects that are missing, and reports what would break a promise.

Examples are an operator's policy, a changed argument, and a Redis that evicts keys.
"""

from __future__ import annotations

import asyncio
from time import monotonic, time

import structlog

from bridge.broker.declared.findings import Finding
from bridge.metrics.loops import FINDINGS, LAST_RUN
from bridge.model.errors import StoreUnfit, Unavailable
from bridge.service.context import Context
from bridge.service.supervisor import waiting
from bridge.store.clock import ClockStep
from bridge.store.eviction import evicting, evicts

log = structlog.get_logger(__name__)

_RETRY_S = 1.0
_STEP_SHOWN_S = 3_600.0


class Watch:
    """The loop that inspects. `findings`: those of the latest inspection; `policies`: whether it sees policies."""

    name = "watch"

    def __init__(self, context: Context) -> None:
        self._broker = context.broker
        self._store = context.store
        self._topics = context.topics
        self._every_s = context.settings.verify_every / 1_000
        self._part = context.part_name(self.name)
        self._whole = True  # the next inspection also checks what can't change in place
        self.findings: tuple[Finding, ...] = ()
        self.policies = "looked at" if context.settings.management_url else "not looked at: set BRIDGE_MANAGEMENT_URL"
        self.state = "starting"

    @property
    def broken(self) -> list[Finding]:
        """The findings that break a promise."""
        return [finding for finding in self.findings if finding.severity == "error"]

    async def run(self) -> None:
        """Runs for ever. While RabbitMQ or Redis is away, it tries again every second."""
        inspected, away = False, False
        while True:
            pause_s = self._every_s
            try:
                await self.run_once()
                self.state, inspected, away = "ok", True, False
            except Unavailable as error:
                # A failed inspection does not make the process unready: health shows the servers as parts.
                self.state = "ok" if inspected else waiting(error)
                if not away:
                    log.warning("watch.waiting", reason=str(error))
                away = True
                pause_s = min(_RETRY_S, self._every_s or _RETRY_S)
            await (asyncio.sleep(pause_s) if pause_s else asyncio.get_running_loop().create_future())

    async def run_once(self) -> None:
        """Inspects once.

        Raises:
            Unavailable: `findings` are those of the inspection before.
        """
        topics = await self._topics.read_policies()  # which notes for the broker whether a topic is direct
        inspection = await self._broker.inspect(topics, self._topics.names, whole=self._whole)
        # Somebody may have declared a missing object with other arguments, just before this did.
        self._whole = bool(inspection.mended)
        if inspection.mended:
            log.warning("topology.mended", missing=inspection.mended[:10], count=len(inspection.mended))
        findings = list(inspection.findings)
        try:
            # Agrees again: Redis may have been emptied, and another bridge may have set other values first.
            await self._store.agree()
        except StoreUnfit as error:
            findings.append(Finding("error", str(error)))
        if policy := await evicting(self._store):
            findings.append(Finding("warning", evicts(policy)))
        since_s = monotonic() - _STEP_SHOWN_S
        findings += dict.fromkeys(_of_step(step) for step in self._store.clock.steps if step.at_s > since_s)
        self._report(tuple(findings))
        LAST_RUN.labels(self._part).set(time())

    def _report(self, findings: tuple[Finding, ...]) -> None:
        for finding in findings:
            if finding not in self.findings:
                log.warning("broker.finding", severity=finding.severity, finding=finding.says)
        for finding in self.findings:
            if finding not in findings:
                log.info("broker.finding_cleared", severity=finding.severity, finding=finding.says)
        for severity in ("error", "warning"):
            # The gauge is shared with the watches of other pools.
            before, now = (sum(one.severity == severity for one in some) for some in (self.findings, findings))
            FINDINGS.labels(severity).inc(now - before)
        self.findings = findings


def _of_step(step: ClockStep) -> Finding:
    server, seconds = f" {step.server}" if step.server else "", f"{abs(step.ahead_ms) / 1_000:,.0f} s"
    if step.ahead_ms > 0:
        change, effect = f"ahead by {seconds}", "what was due within that time came early"
    else:
        change = f"back by {seconds}"
        effect = "due messages waited, and those with deliver_at may be late by as much on direct release"
    mending = "let NTP correct it slowly (the finding stays for an hour)"
    return Finding("warning", f"the clock of Redis{server} was set {change}: {effect}; {mending}")
