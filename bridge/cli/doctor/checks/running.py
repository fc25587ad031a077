"""Checks a running bridge by its health and its version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from bridge.cli.doctor.checks import management, redis
from bridge.cli.doctor.checks.check import Check, Fault, Verdict, over
from bridge.cli.doctor.facts.facts import Facts
from bridge.cli.doctor.facts.missing import Missing
from bridge.cli.doctor.facts.redis import Redis
from bridge.cli.doctor.facts.running import Running

_SETTINGS: Final = {"broker": "amqp_url", "store": "redis_url"}  # of the servers among the parts
_REMEDIES: Final = {
    "broker": "Start RabbitMQ, or correct the bridge's {setting} (docs/operating/runbook.md#rabbitmq-is-away)."
    " If it blocks publishers, free memory or disk (docs/operating/runbook.md#a-memory-or-disk-alarm).",
    "store": "Start Redis, or correct the bridge's {setting} (docs/operating/runbook.md#redis-is-away)."
    " For OOM or MISCONF, make room (docs/operating/runbook.md#redis-is-full).",
}
_WAITING: Final = "waiting: "
_COUNTDOWN: Final = re.compile(r"; asked again in [\d.]+ s")


def parts(running: Running) -> Iterator[Fault]:
    """Yields one fault for each cause: a server that is away, with all parts that wait for it, or a failed part."""
    ill = {part: state for part, state in running.parts.items() if state != "ok"}
    by_cause: dict[str, list[str]] = {}
    for part in sorted(ill, key=lambda part: not _is_server(part)):
        by_cause.setdefault(_cause(part, ill), []).append(part)
    for cause, waiting in by_cause.items():
        state = ill[waiting[0]]
        yield Fault(f"{', '.join(waiting)} of the bridge at {running.url}: {state}", remedy=_remedy(cause))


def _cause(part: str, ill: Mapping[str, str]) -> str:
    """Returns the cause of a part's state: the name of the server that is away, or else a text from the state. `ill`:
    the states that are not ok, by part."""
    pool, state = part.rpartition("/")[0], ill[part]
    away = {other: _reason(ill[other]) for other in ill if _is_server(other) and other.rpartition("/")[0] == pool}
    if part in away:
        return part
    if not state.startswith(_WAITING):
        return state
    named = [server for server, reason in away.items() if reason == _reason(state)]
    return next(iter(named or (away if len(away) == 1 else ())), _reason(state))


def _is_server(part: str) -> bool:
    return part.rpartition("/")[2] in _REMEDIES


def _reason(state: str) -> str:
    """Returns a part's state without the prefix `waiting: ` and without the countdown. So all parts that wait for one
    server have the same text."""
    return _COUNTDOWN.sub("", state.removeprefix(_WAITING))


def _remedy(cause: str) -> str | None:
    """Returns the remedy for a server that is away; None: the cause is no server."""
    if not _is_server(cause):
        return None
    pool, _, server = cause.rpartition("/")
    setting = _SETTINGS[server]
    shown = f"`{setting}` of the pool {pool}" if pool else f"`BRIDGE_{setting.upper()}`"
    return _REMEDIES[server].format(setting=shown)


def findings(facts: Facts) -> Verdict:
    """Returns a fault for each finding in the running bridge's health that no other check names."""
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
        effect="While a server is away, `GET /health/ready` answers 503, and a balancer sends nothing to this bridge."
        " If a loop fails, other bridges do its work.",
        remedy="Repair the server that the state names: docs/operating/runbook.md#rabbitmq-is-away or"
        " docs/operating/runbook.md#redis-is-away. For a loop that failed, look for loop.failed in the log"
        " (docs/operating/runbook.md#loops).",
        decide=over(lambda facts: facts.running, parts),
    ),
    Check(
        number=402,
        title="The bridge has findings",
        cause="The bridge has seen something that this program did not, such as a step of a clock.",
        effect="Messages may be lost or late. The finding names the effect.",
        remedy="Do what the finding says. docs/operating/runbook.md#findings lists them.",
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
