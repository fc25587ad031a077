"""The watch: looks the broker and Redis over again and again, declares anew what somebody has taken away, and tells
what would break a promise: an operator's policy, a changed argument, a Redis that evicts."""

from __future__ import annotations

import asyncio

import structlog

from bridge import metrics
from bridge.broker.declared.findings import Finding
from bridge.model.errors import StoreUnfit, Unavailable
from bridge.service.context import Context
from bridge.service.supervisor import waiting
from bridge.store.eviction import evicting

log = structlog.get_logger(__name__)

_RETRY_S = 1.0


class Watch:
    name = "watch"

    def __init__(self, context: Context) -> None:
        self._broker = context.broker
        self._store = context.store
        self._topics = context.topics
        self._every_s = context.settings.verify_every / 1_000
        self._whole = True  # the next look is at all there is, and not only at what changes
        self.findings: tuple[Finding, ...] = ()
        self.policies = "looked at" if context.settings.management_url else "not looked at: set BRIDGE_MANAGEMENT_URL"
        self.state = "starting"

    @property
    def broken(self) -> list[Finding]:
        """Those of the findings that break a promise."""
        return [finding for finding in self.findings if finding.severity == "error"]

    async def run(self) -> None:
        """Runs for ever; what goes away is waited for."""
        looked, away = False, False
        while True:
            pause_s = self._every_s
            try:
                await self.run_once()
                self.state, looked, away = "ok", True, False
            except Unavailable as error:
                # A look in vain is no reason to be unready: the servers are parts of their own.
                self.state = "ok" if looked else waiting(error)
                if not away:
                    log.warning("watch.waiting", reason=str(error))
                away = True
                pause_s = min(_RETRY_S, self._every_s or _RETRY_S)
            await (asyncio.sleep(pause_s) if pause_s else asyncio.get_running_loop().create_future())

    async def run_once(self) -> None:
        """One look.

        Raises:
            Unavailable: `findings` are those of the look before.
        """
        topics = await self._topics.names()
        for topic in topics:
            await self._topics.policy(topic)  # whether it is bound past the checkpoint
        look = await self._broker.look(topics, whole=self._whole)
        # What was missing may have stood again in another form by the time it was declared.
        self._whole = bool(look.mended)
        if look.mended:
            log.warning("topology.mended", missing=look.mended[:10], count=len(look.mended))
        findings = list(look.findings)
        try:
            # Anew, as Redis may have been emptied since, and another bridge have come first.
            await self._store.agree()
        except StoreUnfit as error:
            findings.append(Finding("error", str(error)))
        if policy := await evicting(self._store):
            findings.append(
                Finding(
                    "warning",
                    f"Redis' maxmemory-policy is {policy}: full, it throws away what is known of messages, and deletes"
                    " and topics' policies with it; required is noeviction",
                )
            )
        self._tell(tuple(findings))

    def _tell(self, findings: tuple[Finding, ...]) -> None:
        for finding in findings:
            if finding not in self.findings:
                log.warning("broker.finding", severity=finding.severity, finding=finding.says)
        for finding in self.findings:
            if finding not in findings:
                log.info("broker.finding_cleared", severity=finding.severity, finding=finding.says)
        for severity in ("error", "warning"):
            # Other pools are watched in this process too.
            before, now = (sum(one.severity == severity for one in found) for found in (self.findings, findings))
            metrics.FINDINGS.labels(severity).inc(now - before)
        self.findings = findings
