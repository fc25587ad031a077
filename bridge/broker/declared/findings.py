"""What a look at the broker found, for an operator to read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from topology.report import Finding as OfTopology


@dataclass(frozen=True, slots=True)
class Finding:
    """An `error` breaks a promise as it stands, a `warning` may, or makes messages late. `says` it in words."""

    severity: Literal["error", "warning"]
    says: str


def told(findings: Iterable[OfTopology]) -> list[Finding]:
    """The findings in words, errors first; what one policy does to many queues is one."""
    groups: dict[tuple[str, ...], list[OfTopology]] = {}
    for one in findings:
        what = one.name.removeprefix(f"{one.on}: ") if one.on else one.name
        groups.setdefault((one.severity, what, one.found, one.effect), []).append(one)
    return sorted(map(_as_one, groups.values()), key=lambda one: one.severity)


def _as_one(group: list[OfTopology]) -> Finding:
    first = group[0]
    what = first.name.removeprefix(f"{first.on}: ") if first.on else first.name
    on = f" on {first.on}" if first.on else ""
    others = f" and {len(group) - 1} more" if len(group) > 1 else ""
    effect = f": {first.effect}" if first.effect else ""
    return Finding(first.severity, f"{what} is {first.found}{on}{others}{effect}; required is {first.required}")
