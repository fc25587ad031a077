"""Comparing a plan with what the management API tells of a broker. Pure: it takes the decoded answers.

Which value wins, the queue's argument or the policy's, is the broker's rule
(https://www.rabbitmq.com/docs/parameters#policies): of `message-ttl`, `max-length`, `delivery-limit` the lower one, of
all others the argument. Of the policies that match a queue, one counts: that with the highest priority; and of the
operator policies another one.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from topology.plan import Arguments, Binding, Plan, Queue
from topology.report import Finding, error, warning

Answer = Iterable[Mapping[str, Any]]

REQUIRED_FLAGS: Final = ("quorum_queue", "stream_queue")
"""Before 3.12 they can be off. Without `stream_queue` 3.10 takes at-least-once for at-most-once, and only logs it."""

_QUEUE_POLICIES: Final = ("all", "queues", "quorum_queues")
# A digit of a hand, or a direct topic: what the topology itself binds to an exchange that has an alternate.
_OWN_KEY: Final = re.compile(r"(\*\.)*\d+\.#|(\*\.){7}[^*#]+")


def flags(answer: Answer) -> list[Finding]:
    """From /api/feature-flags. A flag that newer versions no longer list is always on."""
    states = {str(flag["name"]): str(flag.get("state")) for flag in answer}
    return [
        error(f"feature flag {name}", found=states[name], required="enabled")
        for name in REQUIRED_FLAGS
        if states.get(name, "enabled") != "enabled"
    ]


def exchanges(plan: Plan, answer: Answer) -> list[Finding]:
    """From /api/exchanges/VHOST: type, durability, arguments. A missing one is not told here."""
    known = {str(found["name"]): found for found in answer}
    findings = []
    for exchange in plan.exchanges:
        if found := known.get(exchange.name):
            if found["type"] != exchange.type:
                findings.append(error(f"{exchange.name}: type", found=found["type"], required=exchange.type))
            findings += _durability(exchange.name, found)
            findings += _arguments(exchange.name, found["arguments"], exchange.arguments)
    return findings


def queues(plan: Plan, answer: Answer) -> list[Finding]:
    """From /api/queues/VHOST: durability, arguments. A missing one is not told here."""
    known = {str(found["name"]): found for found in answer}
    findings = []
    for queue in plan.queues:
        if found := known.get(queue.name):
            findings += _durability(queue.name, found)
            findings += _arguments(queue.name, found["arguments"], queue.arguments)
    return findings


def bindings(plan: Plan, answer: Answer) -> list[Finding]:
    """From /api/bindings/VHOST: what is missing, and what else was bound and takes messages past the checkpoint."""
    standing = {
        Binding(
            source=found["source"],
            destination=found["destination"],
            destination_type=found["destination_type"],
            key=found["routing_key"],
        )
        for found in answer
    }
    watched = {exchange.name for exchange in plan.exchanges if exchange.alternate}
    missing = [
        error(f"binding {b.source} --{b.key}--> {b.destination}", found="missing", required="bound")
        for b in plan.bindings
        if b not in standing
    ]
    foreign = [
        warning(
            f"binding {b.source} --{b.key}--> {b.destination}",
            found="bound",
            required="not bound: what it takes does not come to the checkpoint",
        )
        for b in sorted(standing - set(plan.bindings), key=lambda b: (b.source, b.destination, b.key))
        if b.source in watched and not _OWN_KEY.fullmatch(b.key)
    ]
    return missing + foreign


def policies(plan: Plan, answer: Answer, *, kind: str) -> list[Finding]:
    """From /api/policies/VHOST or /api/operator-policies/VHOST (`kind` names it in the findings)."""
    by_priority = sorted(answer, key=lambda policy: -int(policy.get("priority", 0)))
    findings = []
    for queue in plan.queues:
        policy = next((policy for policy in by_priority if _matches(policy, queue.name)), None)
        if policy is not None:
            name = f"{queue.name}: {kind} {policy['name']}"
            findings += [
                error(f"{name}: {key}", found=policy["definition"][key], required=required)
                for key, required in _broken_by(policy["definition"], queue)
            ]
    return findings


def _broken_by(definition: Mapping[str, Any], queue: Queue) -> Iterable[tuple[str, str]]:
    arguments = queue.arguments
    for key in ("expires", "max-length", "max-length-bytes"):
        if key in definition:
            yield key, "absent: it loses messages"
    for key in ("message-ttl", "delivery-limit"):
        own = arguments.get(f"x-{key}")
        if key in definition and (own is None or int(definition[key]) < int(own)):
            yield key, f"absent, or at least {own}" if own is not None else "absent: nothing expires here"
    if "x-dead-letter-exchange" in arguments:
        if "dead-letter-routing-key" in definition:
            yield "dead-letter-routing-key", "absent: the key says the rest of the way"
    elif "dead-letter-exchange" in definition:
        yield "dead-letter-exchange", "absent: nothing leaves here by itself"


def _matches(policy: Mapping[str, Any], name: str) -> bool:
    if policy.get("apply-to", "all") not in _QUEUE_POLICIES:
        return False
    try:
        return re.search(str(policy["pattern"]), name) is not None
    except re.error:
        # The broker's expressions are PCRE. One that Python does not read is taken as matching: better told in vain.
        return True


def _durability(name: str, found: Mapping[str, Any]) -> list[Finding]:
    return [] if found.get("durable", True) else [error(f"{name}: durable", found=False, required=True)]


def _arguments(name: str, found: Mapping[str, Any], required: Arguments) -> list[Finding]:
    return [
        error(f"{name}: {key}", found=found.get(key, "absent"), required=required.get(key, "absent"))
        for key in sorted(found.keys() | required.keys())
        if found.get(key) != required.get(key)
    ]
