"""Describes the health of a bridge: one process, or all worker processes of one `serve`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from bridge.broker.declared.findings import Finding
from bridge.model.durations import format_instant
from bridge.model.part_state import Failed, Ok, PartState, Starting, Waiting


class Watching(Protocol):
    """The latest findings of the loop that inspects RabbitMQ and Redis (`loops/watch.py`). `broken`: the findings that
    break a promise. `policies`: a text that says whether the loop checks RabbitMQ's policies."""

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
    """The health of one process or pool. `ok`: a send would succeed now, and no finding breaks a promise; False while
    the process stops. `parts`: the state of the broker, the store and each loop, by name: "ok", or the reason why not.
    While the process stops, there is also a part `process`. `findings`: faults that an operator should look at.
    `policies`: a text that says whether the watch checks RabbitMQ's policies."""

    ok: bool
    parts: Mapping[str, str]
    findings: Sequence[Finding]
    policies: str


_HARMFUL: Final = frozenset({"access"})
"""The loops without which a process should get no calls. A process whose loop `access` fails can't read tokens, and
still accepts revoked tokens. If any other loop fails, the process still takes and hands out messages, and the loops of
other processes do that loop's work."""


def serves(part: str, state: PartState) -> bool:
    """Whether a process should still get calls while its loop `part` is in this state."""
    loop = part.rpartition("/")[2]
    match state:
        case Ok():
            return True
        case Starting():
            # The loop's first try may still find something that breaks a promise.
            return False
        case Waiting() | Failed():
            # No call waits for any other loop. Each health call probes the servers that calls need.
            return loop not in _HARMFUL


def failures(states: Mapping[str, PartState]) -> list[Finding]:
    """Returns a finding for each loop whose state is `Failed`. `states`: the states of loops by name."""
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
    """Returns the health of all worker processes of one `serve` together. It is `ok` only if every process answered and
    the health of each is `ok`.

    Args:
        own: the health of this process.
        others: the `Health` of each other process as a JSON object, by name; None if the process did not answer.
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
