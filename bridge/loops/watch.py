"""Inspects RabbitMQ and Redis regularly, declares missing objects, and reports faults that may break a promise.

Examples are an operator's policy, a changed argument, and a Redis that evicts keys.
"""

from __future__ import annotations

from time import monotonic, time
from typing import NoReturn

import structlog

from bridge.broker.declared.findings import Finding
from bridge.metrics.loops import LAST_RUN
from bridge.model.errors import StoreUnfit
from bridge.service.context import Context
from bridge.service.dead.queueless_dead_letters import QueuelessDeadLetters
from bridge.service.health.supervisor import Status, retrying
from bridge.store.clock import ClockStep
from bridge.store.eviction import evicting, evicts
from bridge.store.unnamed import Kind

log = structlog.get_logger(__name__)

_RETRY_S = 1.0
_PAUSES = 5  # times as long as an inspection of many topics took
_STEP_SHOWN_S = 3_600.0


class Watch:
    """The loop that inspects RabbitMQ and Redis. `findings`: the findings of the latest inspection. `policies`: a text
    for health, which says whether inspections check RabbitMQ's policies."""

    def __init__(self, context: Context) -> None:
        self._broker = context.broker
        self._store = context.store
        self._topics = context.topics
        self._queueless = QueuelessDeadLetters(context)
        self._every_s = context.settings.verify_every / 1_000
        self._part = context.part_name("watch")
        self._whole = True  # the next inspection also checks properties that can't change while an object exists
        self.findings: tuple[Finding, ...] = ()
        self.policies = "looked at" if context.settings.management_url else "not looked at: set BRIDGE_MANAGEMENT_URL"
        self.status = Status(self._part, retry_s=min(_RETRY_S, self._every_s or _RETRY_S))

    @property
    def broken(self) -> list[Finding]:
        """The findings that break a promise."""
        return [finding for finding in self.findings if finding.severity == "error"]

    async def run(self) -> NoReturn:
        """Inspects RabbitMQ and Redis at the start, and then every `BRIDGE_VERIFY_EVERY`. 0: only at the start. While a
        finding breaks a promise, the next inspection comes sooner: after a second or five times the last inspection's
        duration, whichever is longer, but never later than the setting. While a server is away, the loop retries every
        second, or every `BRIDGE_VERIFY_EVERY` if that is shorter."""
        await retrying(self.status, self._inspect)

    async def _inspect(self) -> float | None:
        began_s = monotonic()
        await self.run_once()
        if self.broken and self._every_s:
            # No bridge is ready, so the repair is looked for often: but not most of the time.
            return min(self._every_s, max(_RETRY_S, _PAUSES * (monotonic() - began_s)))
        return self._every_s or None

    async def run_once(self) -> None:
        """Inspects once.

        Raises:
            Unavailable: `findings` keeps the previous inspection's result.
        """
        topics = await self._topics.read_policies()  # which notes for the broker whether a topic is direct
        inspection = await self._broker.inspect(topics, self._topics.names, whole=self._whole)
        # Somebody may have declared a missing object with other arguments, just before this did.
        self._whole = bool(inspection.mended)
        if inspection.mended:
            log.warning("topology.mended", missing=inspection.mended[:10], count=len(inspection.mended))
        findings = [*inspection.findings, *await self._queueless.findings(topics)]
        try:
            # Agrees again: Redis may have been emptied, and another bridge may have set other values first.
            await self._store.agree()
        except StoreUnfit as error:
            findings.append(Finding("error", str(error)))
        if policy := await evicting(self._store):
            findings.append(Finding("warning", evicts(policy)))
        since_s = monotonic() - _STEP_SHOWN_S
        clock = self._store.clock
        findings += dict.fromkeys(_step_finding(step, clock.overruled) for step in clock.steps if step.at_s > since_s)
        findings += map(_verdict_finding, self._store.unnamed.lately())
        self._report(tuple(findings))
        LAST_RUN.labels(self._part).set(time())

    def _report(self, findings: tuple[Finding, ...]) -> None:
        for finding in findings:
            if finding not in self.findings:
                log.warning("broker.finding", severity=finding.severity, finding=finding.says)
        for finding in self.findings:
            if finding not in findings:
                log.info("broker.finding_cleared", severity=finding.severity, finding=finding.says)
        self.findings = findings


def _verdict_finding(kind: Kind) -> Finding:
    return Finding(
        "warning",
        f"Redis answered {kind.verdict!r} to the script {kind.script_name}, and this version has no rule for that: the "
        "messages are held. Stop processes of other versions, and report it (the finding stays for 10 minutes)",
    )


def _step_finding(step: ClockStep, overruled: int) -> Finding:
    """Returns the finding about a jump of Redis' clock. `overruled`: how many messages were released more than a second
    before they were due by that clock."""
    server, seconds = f" {step.server}" if step.server else "", f"{abs(step.ahead_ms) / 1_000:,.0f} s"
    if step.ahead_ms > 0:
        change, effect = f"ahead by {seconds}", "what was due within that time came early"
    else:
        change = f"back by {seconds}"
        effect = (
            "messages with deliver_at waited, and may be late by as much on direct release; delays count by RabbitMQ"
        )
        if overruled:
            effect += f", and {overruled:,} messages were released so, which this clock had made late"
    mending = "let NTP correct it slowly (the finding stays for an hour)"
    return Finding("warning", f"the clock of Redis{server} was set {change}: {effect}; {mending}")
