"""Puts the topology's findings into words for an operator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from topology.report import Finding as TopologyFinding
from topology.report import warning


@dataclass(frozen=True, slots=True)
class Finding:
    """An `error` breaks a promise now. A `warning` may break one, or makes messages late. `remedy`: what an operator
    can do about it, if `says` does not say it."""

    severity: Literal["error", "warning"]
    says: str
    remedy: str = ""


def in_words(findings: Iterable[TopologyFinding]) -> list[Finding]:
    """Returns the findings in words, errors first. The effects of one policy on many queues are one finding."""
    groups: dict[tuple[str, ...], list[TopologyFinding]] = {}
    for finding in findings:
        groups.setdefault((finding.severity, _subject(finding), finding.found, finding.effect), []).append(finding)
    return sorted(map(_of_group, groups.values()), key=lambda finding: finding.severity)


def not_empty(refused_queue: str, reason: str) -> TopologyFinding:
    """Returns the finding that clients have sent messages which the checkpoint had to refuse.

    `reason`: of one of them.
    """
    return warning(
        refused_queue,
        found="not empty",
        effect=f"no consumer gets its messages (x-delay-reason of the oldest: {reason}); mend the producer, then "
        "publish or purge them",
        required="empty",
    )


def undeclared(refusal: str) -> TopologyFinding:
    """Returns the finding that an object is gone, and the bridge's user may not declare it. `refusal`: what RabbitMQ
    said."""
    return warning("an object of the bridge", found="missing", effect=refusal, required="declared by another user")


def _subject(finding: TopologyFinding) -> str:
    return finding.name.removeprefix(f"{finding.on}: ") if finding.on else finding.name


def _of_group(group: list[TopologyFinding]) -> Finding:
    first = group[0]
    on = f" on {first.on}" if first.on else ""
    others = f" and {len(group) - 1} more" if len(group) > 1 else ""
    effect = f": {first.effect}" if first.effect else ""
    return Finding(
        first.severity,
        f"{_subject(first)} is {first.found}{on}{others}{effect}; it must be {first.required}",
        first.remedy,
    )
