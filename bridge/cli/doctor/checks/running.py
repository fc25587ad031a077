"""Checks a running bridge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bridge.cli.doctor.checks import management, redis
from bridge.cli.doctor.checks.check import Check, Fault, Verdict, over
from bridge.cli.doctor.facts.facts import Facts
from bridge.cli.doctor.facts.missing import Missing
from bridge.cli.doctor.facts.redis import Redis
from bridge.cli.doctor.facts.running import Running


def parts(running: Running) -> Iterator[Fault]:
    for part, state in running.parts.items():
        if state != "ok":
            yield Fault(f"{part} of the bridge at {running.url}: {state}")


def findings(facts: Facts) -> Verdict:
    """The findings of the bridge that no other check names."""
    if isinstance(facts.running, Missing):
        return facts.running
    said = management.said(facts)
    if isinstance(facts.redis, Redis):
        said |= {fault.found for fault in redis.eviction([server.info for server in facts.redis.seen.servers])}
    return [Fault(found.says, found.severity) for found in facts.running.findings if found.says not in said]


def version(running: Running) -> Iterator[Fault]:
    if running.version != running.own_version:
        yield Fault(f"the bridge is {running.version}, and this program {running.own_version}", "warning")


CHECKS: Final = (
    Check(
        number=401,
        title="A part of the bridge does not work",
        cause="A server is away, or a loop of the bridge has failed. The state says which.",
        effect="`GET /health/ready` answers 503, and a balancer sends nothing to this bridge.",
        remedy="Repair what the state names. docs/operating/runbook.md has each case.",
        decide=over(lambda facts: facts.running, parts),
    ),
    Check(
        number=402,
        title="The bridge has findings",
        cause="The bridge has seen something that this program did not, such as a step of a clock.",
        effect="Messages may be lost or late. The finding names the effect.",
        remedy="Do what the finding says. docs/operating/runbook.md#health lists them.",
        decide=findings,
    ),
    Check(
        number=403,
        title="The bridge has another version than this program",
        cause="One of the two was upgraded, or `PATH` leads to another installation.",
        effect="This program may name things that the bridge does not know.",
        remedy="Run the `delaybridge` of the bridge's installation, or restart the bridge.",
        decide=over(lambda facts: facts.running, version),
    ),
)
