"""Describes the health of a bridge: one process, or all worker processes of one `serve`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from bridge.broker.declared.findings import Finding


class Watching(Protocol):
    """What the watch last found on RabbitMQ and Redis. `broken`: the findings that break a promise. `policies`: whether
    the watch reads RabbitMQ's policies."""

    @property
    def findings(self) -> Sequence[Finding]: ...

    @property
    def broken(self) -> Sequence[Finding]: ...

    @property
    def policies(self) -> str: ...


@dataclass(frozen=True, slots=True)
class _NotWatched:
    findings: tuple[Finding, ...] = ()
    broken: tuple[Finding, ...] = ()
    policies: str = "not looked at: no watch runs in this process"


NOT_WATCHED: Final[Watching] = _NotWatched()


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """The health of one process or pool. `parts`: the broker, the store and each loop, with "ok" or the reason why not;
    also the process while it stops. `findings`: what an operator should look at. A finding that breaks a promise makes
    `ok` false. `policies`: whether the watch reads RabbitMQ's policies."""

    ok: bool
    parts: Mapping[str, str]
    findings: Sequence[Finding]
    policies: str


def merge_workers(own: Health, others: Mapping[str, Any]) -> Health:
    """The health of all worker processes; `ok` only if each is.

    Args:
        others: by the process's name, its `Health` as a JSON object; None for a process that did not answer.
    """
    parts, findings, ok = dict(own.parts), list(own.findings), own.ok
    for name, other in others.items():
        if other is None:
            parts[name] = "does not answer"
            ok = False
            continue
        ok = ok and other["ok"]
        for part, state in other["parts"].items():
            if parts.get(part, "ok") == "ok":
                parts[part] = state
        other_findings = [Finding(**finding) for finding in other["findings"]]
        findings += [finding for finding in other_findings if finding not in findings]
    return Health(ok=ok, parts=parts, findings=findings, policies=own.policies)
