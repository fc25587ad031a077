"""How a bridge is: one process, or all worker processes of one `serve`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridge.broker.declared.findings import Finding


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """`parts`: broker, store and each loop, "ok" or why not; the process itself when it stops. `findings`: what an
    operator should look at; one that breaks a promise makes `ok` false. `policies`: whether the broker's were looked
    at."""

    ok: bool
    parts: Mapping[str, str]
    findings: Sequence[Finding]
    policies: str


def together(own: Health, others: Mapping[str, Any]) -> Health:
    """Well where all are. `others`: by process what it says of itself, as JSON has it; None: it does not answer."""
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
        told = [Finding(**one) for one in other["findings"]]
        findings += [one for one in told if one not in findings]
    return Health(ok=ok, parts=parts, findings=findings, policies=own.policies)
