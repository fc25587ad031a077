"""Describes the health of a bridge: one process, or all worker processes of one `serve`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from bridge.broker.declared.findings import Finding
from bridge.model.durations import format_instant
from bridge.model.part_state import Failed, Ok, PartState, Starting, Waiting


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
    """The health of one process or pool. `ok`: whether a send would succeed now, and no finding breaks a promise.
    `parts`: the broker, the store and each loop, with "ok" or the reason why not; also the process while it stops.
    `findings`: what an operator should look at. `policies`: whether the watch reads RabbitMQ's policies."""

    ok: bool
    parts: Mapping[str, str]
    findings: Sequence[Finding]
    policies: str


_HARMFUL: Final = frozenset({"access"})
"""The loops whose failures harm callers of this process, since another process would serve them better. A process that
can't read tokens goes on with revoked ones. Without any other loop it takes and hands out messages as before, and the
loops of other processes do the rest."""


def serves(part: str, state: PartState) -> bool:
    """Whether calls should still reach a process with this loop."""
    loop = part.rpartition("/")[2]
    match state:
        case Ok():
            return True
        case Starting():
            # Its first try may yet find what breaks a promise.
            return False
        case Waiting() | Failed():
            # No call waits for another loop. What calls need of the servers is probed each time.
            return loop not in _HARMFUL


def failures(states: Mapping[str, PartState]) -> list[Finding]:
    """The findings of loops that fail. `states`: of loops by name."""
    return [
        Finding(
            "warning" if serves(part, state) else "error",
            f"the loop {part} has failed since {format_instant(state.since_ms)}: {state.error} {state.times}; it tries"
            " again, and the log has the event loop.failed",
        )
        for part, state in states.items()
        if isinstance(state, Failed)
    ]


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
