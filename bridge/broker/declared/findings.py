"""Puts the topology's findings into words for an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from bridge.broker.declared.mending import Mended
from topology.report import Difference, warning


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault for an operator. An `error` breaks a promise now. A `warning` may break a promise, or makes messages
    late. `says`: what is wrong. `remedy`: what an operator can do about the fault, if `says` does not name that."""

    severity: Literal["error", "warning"]
    says: str
    remedy: str = ""


def in_words(findings: Iterable[Difference]) -> list[Finding]:
    """Converts the topology's findings to words, errors first. The effects of one policy on many queues become one
    finding."""
    groups: dict[tuple[str, ...], list[Difference]] = {}
    for finding in findings:
        groups.setdefault((finding.severity, _subject(finding), finding.found, finding.effect), []).append(finding)
    return sorted(map(_of_group, groups.values()), key=lambda finding: finding.severity)


def not_empty(refused_queue: str, reason: str) -> Difference:
    """Returns the finding that messages are in `delay.refused`, because a bridge has put them aside.

    `refused_queue`: the queue's name. `reason`: why a bridge put the oldest of them aside.
    """
    return warning(
        refused_queue,
        found="not empty",
        effect=f"no consumer gets its messages (x-delay-reason of the oldest: {reason}); mend the producer, then "
        "publish or purge them",
        required="empty",
    )


def unreadable(queue: str, reason: str) -> Finding:
    """Returns the finding that RabbitMQ closes connections, perhaps over a message in the queue. The bridge has
    searched the queue for that message, and the search failed. `reason`: why the search failed."""
    return Finding(
        "warning",
        f"RabbitMQ closes connections over an error of its own, and the bridge found no message in the queue {queue} "
        f"that causes it: {reason}",
        "If it stays, a policy moves the message: docs/ingress.md, Clients of AMQP 1.0",
    )


def dead_letters_without_queue(topic: str, queue: str) -> Finding:
    """Returns the finding that Redis lists dead letters of the topic, but somebody has deleted its dead-letter
    queue."""
    return Finding(
        "warning",
        f"the queue {queue} of the topic {topic} is missing, and Redis lists dead letters of it: AMQP consumers of the "
        "queue do not get them",
        "Replay or drop them: the bridge does both from their records. The topic's next dead letter declares the "
        f"queue, or `delaybridge topology --topic {topic} apply`",
    )


def undeclared(mended: Mended, topic_of: Callable[[str], str | None]) -> list[Difference]:
    """Returns a finding for each missing object that RabbitMQ refuses to declare, and one finding for all untried
    objects. `topic_of`: returns the topic of a queue, by the queue's name; None: the object belongs to no topic."""
    findings = []
    for name, reason in mended.refused.items():
        topic = topic_of(name)
        what = name if topic is None else f"the queue {name} of the topic {topic}"
        findings.append(warning(what, found="missing", effect=reason, required="declared"))
    if mended.untried:
        name = f"{mended.untried[0]} and {len(mended.untried) - 1:,} others"
        findings.append(warning(name, found="missing", effect="they were not tried any more", required="declared"))
    return findings


def _subject(finding: Difference) -> str:
    return finding.name.removeprefix(f"{finding.on}: ") if finding.on else finding.name


def _of_group(group: list[Difference]) -> Finding:
    first = group[0]
    on = f" on {first.on}" if first.on else ""
    others = f" and {len(group) - 1} more" if len(group) > 1 else ""
    effect = f": {first.effect}" if first.effect else ""
    return Finding(
        first.severity,
        f"{_subject(first)} is {first.found}{on}{others}{effect}; it must be {first.required}",
        first.remedy,
    )
