"""Checks RabbitMQ by the answers of its management API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from bridge.broker.declared.findings import in_words
from bridge.cli.doctor.checks.check import Check, Fault, Verdict, listed
from bridge.cli.doctor.facts.facts import Facts
from bridge.cli.doctor.facts.management import Managed, Unusable
from bridge.cli.doctor.facts.missing import Missing
from topology import compare
from topology.report import Difference

# Before 4.0 each quorum queue reserves this many file handles on each node that has it. Measured on 3.10.
_HANDLES_PER_QUEUE: Final = 3
_WITHOUT_HANDLES: Final = 4  # the first major version without such reservations
_MANY: Final = 0.8  # of all handles
_LEAST_HANDLES: Final = 1_024  # the lowest limit of open files that a system has by default

_OF_RETRIES: Final = "delayed-retry-type"
_OF_TIMEOUTS: Final = "consumer-timeout"


def unusable(facts: Facts) -> Verdict:
    if isinstance(facts.management, Missing):
        return facts.management
    return [Fault(facts.management.reason, "warning")] if isinstance(facts.management, Unusable) else ()


def policies(managed: Managed) -> Iterable[Difference] | Missing:
    """Returns all findings about policies and operator policies. Returns `Missing` if the API did not show what the
    check needs."""
    findings: list[Difference] = []
    for answer, kind in (("policies", "policy"), ("operator_policies", "operator policy")):
        rows = managed.answers[answer]
        if isinstance(rows, Missing):
            return rows
        findings += compare.policies(managed.plan, rows, kind=kind)
    return findings


def other_policies(managed: Managed) -> Iterable[Difference] | Missing:
    return _of_key(policies(managed), lambda key: key not in (_OF_RETRIES, _OF_TIMEOUTS))


def retry_policies(managed: Managed) -> Iterable[Difference] | Missing:
    return _of_key(policies(managed), lambda key: key == _OF_RETRIES)


def timeout_policies(managed: Managed) -> Iterable[Difference] | Missing:
    return _of_key(policies(managed), lambda key: key == _OF_TIMEOUTS)


def objects(managed: Managed) -> Iterable[Difference] | Missing:
    """Returns the findings about arguments and bindings of existing objects. Returns `Missing` if the API did not show
    what the check needs."""
    findings: list[Difference] = []
    judges = (("exchanges", compare.exchanges), ("queues", compare.queues), ("bindings", compare.bindings))
    for answer, judge in judges:
        rows = managed.answers[answer]
        if isinstance(rows, Missing):
            return rows
        findings += judge(managed.plan, rows)
    return findings


def expired(managed: Managed) -> Iterable[Difference] | Missing:
    page = managed.answers["expired"]
    return page if isinstance(page, Missing) else compare.expired(managed.plan, page["items"])


def versions(facts: Facts) -> Verdict:
    managed = facts.management
    if not isinstance(managed, Managed):
        return _not_managed(managed)
    connections = managed.answers["connections"]
    if isinstance(connections, Missing):
        return connections
    found = sorted(set(_versions(connections, managed.prefix)))
    return [Fault(f"bridges of {listed(found)} are connected", "warning")] if len(found) > 1 else ()


def _versions(connections: Sequence[Any], prefix: str) -> Iterator[str]:
    for connection in connections:
        about = (connection.get("client_properties") or {}).get("delaybridge")
        if isinstance(about, dict) and about.get("prefix") == prefix:
            yield str(about.get("version"))


def file_handles(facts: Facts) -> Verdict:
    managed = facts.management
    if not isinstance(managed, Managed):
        return _not_managed(managed)
    overview = managed.answers["overview"]
    if isinstance(overview, Missing):
        return overview
    if int(overview["rabbitmq_version"].partition(".")[0]) >= _WITHOUT_HANDLES:
        return ()
    nodes = managed.answers["nodes"]
    if isinstance(nodes, Missing):
        return nodes
    queues = overview["object_totals"]["queues"]
    reserved = queues * _HANDLES_PER_QUEUE
    limits = {node["name"]: node["fd_total"] for node in nodes if "fd_total" in node}
    if not limits and reserved > _LEAST_HANDLES * _MANY:
        return Missing("the management API does not show the nodes' file handles yet")
    return [
        Fault(f"{queues:,} queues reserve up to {reserved:,} of {limit:,} file handles of {node}", "warning")
        for node, limit in limits.items()
        if reserved > limit * _MANY
    ]


def said(facts: Facts) -> set[str]:
    """Returns the texts of the faults about policies, objects and expired messages. A running bridge reports the same
    faults as findings in its health."""
    checks = (other_policies, retry_policies, timeout_policies, objects, expired)
    verdicts = [_over_managed(findings)(facts) for findings in checks]
    return {fault.found for verdict in verdicts if not isinstance(verdict, Missing) for fault in verdict}


def _over_managed(findings: Callable[[Managed], Iterable[Difference] | Missing]) -> Callable[[Facts], Verdict]:
    def decide(facts: Facts) -> Verdict:
        if not isinstance(facts.management, Managed):
            return _not_managed(facts.management)
        found = findings(facts.management)
        if isinstance(found, Missing):
            return found
        return [Fault(finding.says, finding.severity) for finding in in_words(found)]

    return decide


def _not_managed(management: Unusable | Missing) -> Missing:
    return management if isinstance(management, Missing) else Missing("no management API; see 221")


def _of_key(findings: Iterable[Difference] | Missing, wanted: Callable[[str], bool]) -> Iterable[Difference] | Missing:
    if isinstance(findings, Missing):
        return findings
    return [finding for finding in findings if wanted(finding.name.rpartition(": ")[2])]


CHECKS: Final = (
    Check(
        number=221,
        title="The management API can't be used",
        cause="`BRIDGE_MANAGEMENT_URL` is not set, its server is away, or its user lacks the tag `monitoring`.",
        effect="Nobody sees policies and bindings that lose messages or make them late.",
        remedy="Set the URL with user and password, and run `rabbitmqctl set_user_tags USER monitoring`.",
        decide=unusable,
    ),
    Check(
        number=222,
        title="A policy loses or delays messages",
        cause="A policy or an operator policy matches the bridge's queues and sets a limit, such as `max-length`.",
        effect="A full queue drops its oldest messages or refuses new ones. The finding names the effect.",
        remedy=r"Narrow the pattern of the policy, as in `^(?!delay\.|ready\.|dead\.)`.",
        decide=_over_managed(other_policies),
    ),
    Check(
        number=223,
        title="A policy delays returned messages",
        cause="A policy of RabbitMQ 4.3 or later sets `delayed-retry-type`, and matches the bridge's queues.",
        effect="RabbitMQ holds messages back that a consumer returned or a crash left, so they are late.",
        remedy="Narrow the pattern of the policy. A topic's back-off gives delayed retries.",
        decide=_over_managed(retry_policies),
    ),
    Check(
        number=224,
        title="A policy ends slow deliveries",
        cause="A policy sets `consumer-timeout` below 30 minutes, and matches the bridge's queues.",
        effect="RabbitMQ takes messages away from slow consumers, and from bridges while Redis is away.",
        remedy="Narrow the pattern of the policy, or raise the limit.",
        decide=_over_managed(timeout_policies),
    ),
    Check(
        number=225,
        title="Objects differ from the plan",
        cause="Somebody has declared a queue with other arguments, or has added or removed a binding.",
        effect="Messages are lost, doubled, or pass the bridge. The finding names the object.",
        remedy="Remove a foreign binding. For arguments, see docs/topology.md#changing-arguments.",
        decide=_over_managed(objects),
    ),
    Check(
        number=226,
        title="Expired messages stay in a slot",
        cause="RabbitMQ lacks `deploy/rabbitmq-advanced.config`, or its disks or CPUs are too slow for the load.",
        effect="Messages are late.",
        remedy="Install the file on every node. If it is installed, add lanes (`BRIDGE_LANES`).",
        decide=_over_managed(expired),
    ),
    Check(
        number=227,
        title="Two versions run at once",
        cause="Bridges of different versions use the same virtual host and prefix, as during an upgrade.",
        effect="Older bridges may not know what newer ones write.",
        remedy="End the upgrade. docs/operating/runbook.md#upgrades has the order.",
        decide=versions,
    ),
    Check(
        number=228,
        title="Queues reserve RabbitMQ's file handles",
        cause="Before 4.0 RabbitMQ reserves three file handles for each quorum queue. A topic has two such queues.",
        effect="When none is left, new connections hang without a log line. No bridge can start or reconnect.",
        remedy="Raise the limit of open files of each node (`LimitNOFILE`), or upgrade to RabbitMQ 4.",
        decide=file_handles,
    ),
)
