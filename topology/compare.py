"""Compares a plan with the decoded answers of the management API. Pure.

The broker decides whether a queue's argument or a policy's key wins
(https://www.rabbitmq.com/docs/parameters#policies). For `message-ttl`, `expires`, `delivery-limit`, `max-length` and
`max-length-bytes` the lower value wins. For `overflow` the policy wins, and for the dead-letter keys the argument. At
most one policy applies to a queue: the matching policy with the highest priority. At most one operator policy applies
in addition.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from topology.plan import KEEPS_LATEST, UNLIMITED_DELIVERIES, Arguments, Binding, Plan, Queue
from topology.report import Difference, error, warning

Rows = Iterable[Mapping[str, Any]]
"""One answer of the management API: a list of JSON objects."""

REQUIRED_FLAGS: Final = ("quorum_queue", "stream_queue")
"""Feature flags that can be disabled before RabbitMQ 3.12. Without `stream_queue`, 3.10 dead-letters at most once where
it should do so at least once, and only logs that."""

_NOT_BESIDE: Final = (
    "Remove the binding. If the queue is a slot of an earlier version, stop its bridges, and move to another prefix "
    "with `delaybridge topology drain`"
)
_REPLACE: Final = "It can't be changed: move to another prefix with `delaybridge topology drain`"

# A slot dead-letters 2,000 to 5,000 messages a second, so as many expired messages are late by some tenths of a second.
_MOST_EXPIRED: Final = 1_000
_DEAD_LETTER_FASTER: Final = (
    "Install deploy/rabbitmq-advanced.config: RabbitMQ's default for dead_letter_worker_consumer_prefetch is 32. If it "
    "is installed, add lanes (BRIDGE_LANES)"
)

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
"""Arguments that lose or misroute messages if they differ from the plan's."""

_NOT_LOWER: Final = "absent, or at least the queue's own value"
_CONSUMER_TIMEOUT_MS: Final = 1_800_000
"""RabbitMQ's default consumer timeout, which the bridge's own consumers never reach while Redis answers."""
# The keys that the topology itself binds to an exchange with an alternate: a digit of a hand, or a direct topic.
_OWN_KEY: Final = re.compile(r"(\*\.)*\d+\.#|(\*\.){7}[^*#]+")


def flags(rows: Rows) -> list[Difference]:
    """Checks the rows of /api/feature-flags, and returns the differences. A flag that newer versions no longer list is
    always enabled."""
    states = {str(flag["name"]): str(flag.get("state")) for flag in rows}
    return [disabled_flag(name, states[name]) for name in REQUIRED_FLAGS if states.get(name, "enabled") != "enabled"]


def disabled_flag(name: str, state: str) -> Difference:
    remedy = f"Enable it with `rabbitmqctl enable_feature_flag {name}`"
    return error(f"feature flag {name}", found=state, required="enabled", remedy=remedy)


def exchanges(plan: Plan, rows: Rows) -> list[Difference]:
    """Checks the plan's exchanges against the rows of /api/exchanges/VHOST: type, durability, arguments. Returns the
    differences. Skips missing exchanges."""
    existing = {str(row["name"]): row for row in rows}
    findings = []
    for exchange in plan.exchanges:
        if row := existing.get(exchange.name):
            if row["type"] != exchange.type:
                findings.append(
                    error(f"{exchange.name}: type", found=row["type"], required=exchange.type, remedy=_REPLACE)
                )
            findings += _durability(exchange.name, row)
            findings += _arguments(exchange.name, row["arguments"], exchange.arguments)
    return findings


def queues(plan: Plan, rows: Rows) -> list[Difference]:
    """Checks the plan's queues against the rows of /api/queues/VHOST: durability, arguments. Returns the differences.
    Skips missing queues."""
    existing = {str(row["name"]): row for row in rows}
    findings = []
    for queue in plan.every_queue:
        if row := existing.get(queue.name):
            findings += _durability(queue.name, row)
            findings += _arguments(queue.name, row["arguments"], queue.arguments)
    return findings


def expired(plan: Plan, rows: Rows) -> list[Difference]:
    """Checks the column `messages_dlx` of rows of /api/queues/VHOST: how many messages of a slot have expired and are
    not dead-lettered yet. Returns a warning for each slot with 1,000 such messages or more. RabbitMQ counts them every
    five seconds."""
    slots = {queue.name for queue in plan.queues if "x-message-ttl" in queue.arguments}
    counts = {str(row["name"]): int(row.get("messages_dlx", 0)) for row in rows}
    return [
        warning(
            f"{name}: number of expired messages",
            found=f"{count:,}",
            required=f"below {_MOST_EXPIRED:,}",
            effect="they wait to be dead-lettered, so they are late",
            remedy=_DEAD_LETTER_FASTER,
        )
        for name, count in counts.items()
        if name in slots and count >= _MOST_EXPIRED
    ]


def bindings(plan: Plan, rows: Rows) -> list[Difference]:
    """Checks the rows of /api/bindings/VHOST. Returns missing bindings, bindings of earlier versions, and foreign
    bindings that copy messages or route them past the bridge."""
    existing = {
        Binding(
            source=row["source"],
            destination=row["destination"],
            destination_type=row["destination_type"],
            key=row["routing_key"],
        )
        for row in rows
    }
    watched = {exchange.name for exchange in plan.exchanges if exchange.alternate}
    missing = [
        error(
            f"binding {b.source} --{b.key}--> {b.destination}",
            found="missing",
            required="bound",
            remedy="Bind it with `delaybridge topology apply`",
        )
        for b in plan.bindings
        if b not in existing
    ]
    former = [
        warning(
            f"binding {b.source} --{b.key}--> {b.destination}",
            found="bound",
            effect="a message with a wrong key may wait for days before it is refused",
            required="absent",
            remedy="Stop the bridges of earlier versions, and remove it with `delaybridge topology apply`",
        )
        for b in plan.former
        if b in existing
    ]
    others = sorted(existing.difference(plan.bindings, plan.former), key=lambda b: (b.source, b.destination, b.key))
    others = [b for b in others if b.source in watched]
    planned = {(b.source, b.key) for b in plan.bindings}
    doubled = [
        Difference(
            severity="warning",
            name=f"{b.destination}: binding with the key of another queue",
            found=f"bound to {b.source}",
            required="absent",
            on=b.destination,
            effect="a copy of each message goes there too",
            remedy=_NOT_BESIDE,
        )
        for b in others
        if (b.source, b.key) in planned
    ]
    foreign = [
        warning(
            f"binding {b.source} --{b.key}--> {b.destination}",
            found="bound",
            effect="the messages that it takes do not reach a bridge",
            required="absent",
            remedy="Remove the binding",
        )
        for b in others
        if (b.source, b.key) not in planned and not _OWN_KEY.fullmatch(b.key)
    ]
    return missing + former + doubled + foreign


def policies(plan: Plan, rows: Rows, *, kind: str) -> list[Difference]:
    """Checks the rows of /api/policies/VHOST or /api/operator-policies/VHOST. Returns keys that lose, misroute or delay
    messages of the plan's queues and exchanges. `kind`: what findings call the rows, such as `operator policy`."""
    by_priority = sorted(rows, key=lambda policy: -int(policy.get("priority", 0)))
    findings = []
    for queue in plan.every_queue:
        if policy := _effective(by_priority, queue.name, _QUEUE_POLICIES):
            findings += [_finding(kind, policy, queue.name, harm) for harm in _harm(policy["definition"], queue)]
    for exchange in plan.exchanges:
        policy = _effective(by_priority, exchange.name, _EXCHANGE_POLICIES)
        if policy and not exchange.alternate and "alternate-exchange" in policy["definition"]:
            harm = _Harm(
                "error", "alternate-exchange", "takes unroutable messages, and the bridge does not see it", "absent"
            )
            findings.append(_finding(kind, policy, exchange.name, harm))
    return findings


@dataclass(frozen=True, slots=True)
class _Harm:
    severity: Literal["error", "warning"]
    key: str
    effect: str
    required: str


def _finding(kind: str, policy: Mapping[str, Any], on: str, harm: _Harm) -> Difference:
    return Difference(
        severity=harm.severity,
        name=f"{on}: {kind} {policy['name']}: {harm.key}",
        found=str(policy["definition"][harm.key]),
        required=harm.required,
        on=on,
        effect=harm.effect,
        remedy=f"Change the {kind} or its pattern",
    )


def _harm(definition: Mapping[str, Any], queue: Queue) -> Iterator[_Harm]:
    arguments = queue.arguments
    if KEEPS_LATEST in arguments:
        return
    if "expires" in definition:
        yield _Harm("error", "expires", "deletes the queue with its messages", "absent")
    overflow = definition.get("overflow", arguments.get("x-overflow"))
    refuses = overflow == "reject-publish"
    if "x-dead-letter-strategy" in arguments and not refuses:
        effect = "makes RabbitMQ dead-letter at most once, so it may lose messages"
        yield _Harm("error", "overflow", effect, "absent, or reject-publish")
    for key in ("max-length", "max-length-bytes"):
        if key in definition and refuses:
            yield _Harm("warning", key, "a full queue refuses sends and holds due messages back", "absent")
        elif key in definition:
            yield _Harm("error", key, "a full queue drops its oldest messages", "absent")
    if definition.get("delayed-retry-type", "disabled") != "disabled":
        effect = "holds messages back that a consumer returned or a crash left, so they are late"
        yield _Harm("warning", "delayed-retry-type", effect, "absent, or disabled")
    if "x-message-ttl" in arguments:
        yield from _harm_to_slot(definition, arguments)
        return
    if int(definition.get("consumer-timeout", _CONSUMER_TIMEOUT_MS)) < _CONSUMER_TIMEOUT_MS:
        effect = "takes messages away from slow consumers, and from bridges while Redis is away"
        yield _Harm("warning", "consumer-timeout", effect, f"absent, or at least {_CONSUMER_TIMEOUT_MS}")
    if "x-dead-letter-exchange" in arguments and arguments.get("x-delivery-limit") == UNLIMITED_DELIVERIES:
        yield from _harm_to_ingress(definition, arguments)
    elif "x-dead-letter-exchange" in arguments:
        yield from _harm_to_ready(definition, arguments)
    else:
        yield from _harm_to_terminal(definition, arguments)


def _harm_to_slot(definition: Mapping[str, Any], arguments: Arguments) -> Iterator[_Harm]:
    if _lower(definition, "message-ttl", arguments):
        effect = "lets messages go early; with direct release they reach their consumers early"
        yield _Harm("error", "message-ttl", effect, _NOT_LOWER)
    if _lower(definition, "delivery-limit", arguments):
        effect = "counts each message that somebody gets by hand and requeues"
        yield _Harm("warning", "delivery-limit", effect, _NOT_LOWER)
    if "dead-letter-routing-key" in definition:
        yield _Harm("error", "dead-letter-routing-key", "misroutes due messages", "absent")


def _harm_to_ready(definition: Mapping[str, Any], arguments: Arguments) -> Iterator[_Harm]:
    if _lower(definition, "message-ttl", arguments):
        effect = "takes messages away from consumers; each time counts as a failed delivery"
        yield _Harm("warning", "message-ttl", effect, _NOT_LOWER)
    if _lower(definition, "delivery-limit", arguments):
        effect = "takes messages away sooner from consumers that crash"
        yield _Harm("warning", "delivery-limit", effect, _NOT_LOWER)
    if "dead-letter-routing-key" in definition:
        yield _Harm("warning", "dead-letter-routing-key", "hides the topic of returned messages", "absent")


def _harm_to_ingress(definition: Mapping[str, Any], arguments: Arguments) -> Iterator[_Harm]:
    """Yields how a policy harms the ingress queue. Messages that a limit takes out of this queue still reach a
    checkpoint."""
    if _lower(definition, "delivery-limit", arguments):
        effect = "makes messages late whose bridges crash"
        yield _Harm("warning", "delivery-limit", effect, _NOT_LOWER)
    if "dead-letter-routing-key" in definition:
        yield _Harm("error", "dead-letter-routing-key", "hides the topic of messages that expire here", "absent")


def _harm_to_terminal(definition: Mapping[str, Any], arguments: Arguments) -> Iterator[_Harm]:
    """Yields how a policy harms a queue that does not dead-letter."""
    if _lower(definition, "message-ttl", arguments):
        yield _Harm("error", "message-ttl", "drops messages that stay longer", _NOT_LOWER)
    if _lower(definition, "delivery-limit", arguments):
        yield _Harm("error", "delivery-limit", "drops messages that are requeued more often", _NOT_LOWER)
    if "dead-letter-exchange" in definition:
        effect = "receives the messages that another limit takes out of the queue"
        yield _Harm("warning", "dead-letter-exchange", effect, "absent")


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
        # The broker's patterns are PCRE. If Python can't parse one, a needless finding is better than a missed one.
        return True


def _durability(name: str, row: Mapping[str, Any]) -> list[Difference]:
    if row.get("durable", True):
        return []
    return [error(f"{name}: durable", found=False, required=True, remedy=_REPLACE)]


def _arguments(name: str, found: Mapping[str, Any], required: Arguments) -> list[Difference]:
    # A queue that dead-letters loses nothing under another delivery limit. It has the limit that it was declared with.
    harmless = {"x-delivery-limit"} if "x-dead-letter-exchange" in required else set()
    return [
        (warning if key in harmless or key not in _BREAKING else error)(
            f"{name}: {key}",
            found=found.get(key, "absent"),
            required=required.get(key, "absent"),
            remedy="The queue keeps the limit that it was declared with" if key in harmless else _REPLACE,
        )
        for key in sorted(found.keys() | required.keys())
        if found.get(key) != required.get(key)
    ]
