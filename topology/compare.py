"""Comparing a plan with what the management API tells of a broker. Pure: it takes the decoded answers.

Which value wins, the queue's argument or the policy's, is the broker's rule
(https://www.rabbitmq.com/docs/parameters#policies): of `message-ttl`, `max-length`, `delivery-limit` the lower one, of
all others the argument. Of the policies that match a queue, one counts: that with the highest priority; and of the
operator policies another one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from topology.plan import Arguments, Binding, Plan, Queue
from topology.report import Finding, error, warning

Answer = Iterable[Mapping[str, Any]]

REQUIRED_FLAGS: Final = ("quorum_queue", "stream_queue")
"""Before 3.12 they can be off. Without `stream_queue` 3.10 takes at-least-once for at-most-once, and only logs it."""

_QUEUE_POLICIES: Final = ("all", "queues", "quorum_queues")
_EXCHANGE_POLICIES: Final = ("all", "exchanges")
_BREAKING: Final = frozenset(
    {
        "alternate-exchange",
        *(f"x-dead-letter-{what}" for what in ("exchange", "routing-key", "strategy")),
        *(f"x-{what}" for what in ("queue-type", "overflow", "max-length", "max-length-bytes", "expires")),
        *(f"x-{what}" for what in ("message-ttl", "delivery-limit")),
    }
)
"""Arguments that lose messages or lead them astray where they are other than the plan's."""

_OWN: Final = "absent, or no lower than the queue's own"
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
        if policy := _effective(by_priority, queue.name, _QUEUE_POLICIES):
            findings += [_finding(kind, policy, queue.name, harm) for harm in _harm(policy["definition"], queue)]
    for exchange in plan.exchanges:
        policy = _effective(by_priority, exchange.name, _EXCHANGE_POLICIES)
        if policy and not exchange.alternate and "alternate-exchange" in policy["definition"]:
            harm = _Harm("error", "alternate-exchange", "takes what finds no queue, unseen by the bridge", "absent")
            findings.append(_finding(kind, policy, exchange.name, harm))
    return findings


@dataclass(frozen=True, slots=True)
class _Harm:
    severity: Literal["error", "warning"]
    key: str
    effect: str
    required: str


def _finding(kind: str, policy: Mapping[str, Any], on: str, harm: _Harm) -> Finding:
    return Finding(
        severity=harm.severity,
        name=f"{on}: {kind} {policy['name']}: {harm.key}",
        found=str(policy["definition"][harm.key]),
        required=harm.required,
        on=on,
        effect=harm.effect,
    )


def _harm(definition: Mapping[str, Any], queue: Queue) -> Iterator[_Harm]:
    arguments = queue.arguments
    if "expires" in definition:
        yield _Harm("error", "expires", "deletes the queue with what is in it", "absent")
    refuses = "reject-publish" in (arguments.get("x-overflow"), definition.get("overflow"))
    for key in ("max-length", "max-length-bytes"):
        if key in definition and refuses:
            yield _Harm("warning", key, "full, it refuses sends and holds back what is due", "absent")
        elif key in definition:
            yield _Harm("error", key, "full, it drops its oldest messages", "absent")
    if "x-message-ttl" in arguments:
        yield from _harm_to_slot(definition, arguments)
    elif "x-dead-letter-exchange" in arguments:
        yield from _harm_to_ready(definition, arguments)
    else:
        yield from _harm_to_last(definition, arguments)


def _harm_to_slot(definition: Mapping[str, Any], arguments: Arguments) -> Iterator[_Harm]:
    if _lower(definition, "message-ttl", arguments):
        yield _Harm("error", "message-ttl", "lets messages go early, on direct release to their consumers", _OWN)
    if _lower(definition, "delivery-limit", arguments):
        yield _Harm("warning", "delivery-limit", "counts what is looked at by hand", _OWN)
    if "dead-letter-routing-key" in definition:
        yield _Harm("error", "dead-letter-routing-key", "leads due messages astray", "absent")


def _harm_to_ready(definition: Mapping[str, Any], arguments: Arguments) -> Iterator[_Harm]:
    if _lower(definition, "message-ttl", arguments):
        yield _Harm("warning", "message-ttl", "takes messages from consumers, each time as a failed delivery", _OWN)
    if _lower(definition, "delivery-limit", arguments):
        yield _Harm("warning", "delivery-limit", "takes messages from consumers that crash sooner", _OWN)
    if "dead-letter-routing-key" in definition:
        yield _Harm("warning", "dead-letter-routing-key", "hides where what came back belongs", "absent")


def _harm_to_last(definition: Mapping[str, Any], arguments: Arguments) -> Iterator[_Harm]:
    """To a queue that nothing leaves by itself."""
    if _lower(definition, "message-ttl", arguments):
        yield _Harm("error", "message-ttl", "loses what stays longer", _OWN)
    if _lower(definition, "delivery-limit", arguments):
        yield _Harm("error", "delivery-limit", "drops what came back so often", _OWN)
    if "dead-letter-exchange" in definition:
        yield _Harm("warning", "dead-letter-exchange", "sends elsewhere what leaves it by another limit", "absent")


def _lower(definition: Mapping[str, Any], key: str, arguments: Arguments) -> bool:
    own = arguments.get(f"x-{key}")
    return key in definition and (own is None or int(definition[key]) < int(own))


def _effective(by_priority: list[Mapping[str, Any]], name: str, kinds: tuple[str, ...]) -> Mapping[str, Any] | None:
    return next((policy for policy in by_priority if _matches(policy, name, kinds)), None)


def _matches(policy: Mapping[str, Any], name: str, kinds: tuple[str, ...]) -> bool:
    if policy.get("apply-to", "all") not in kinds:
        return False
    try:
        return re.search(str(policy["pattern"]), name) is not None
    except re.error:
        # The broker's expressions are PCRE. One that Python does not read is taken as matching: better told in vain.
        return True


def _durability(name: str, found: Mapping[str, Any]) -> list[Finding]:
    return [] if found.get("durable", True) else [error(f"{name}: durable", found=False, required=True)]


def _arguments(name: str, found: Mapping[str, Any], required: Arguments) -> list[Finding]:
    # Where it dead-letters, another limit than now asked for is what the queue was made with, and brings nothing down.
    bearable = {"x-delivery-limit"} if "x-dead-letter-exchange" in required else set()
    return [
        (warning if key in bearable or key not in _BREAKING else error)(
            f"{name}: {key}", found=found.get(key, "absent"), required=required.get(key, "absent")
        )
        for key in sorted(found.keys() | required.keys())
        if found.get(key) != required.get(key)
    ]
