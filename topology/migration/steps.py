"""Decides the steps of a migration, and of its rollback. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import ceil
from typing import Final, Literal

from topology.migration.facts import DELAYED, Facts, OldExchange
from topology.names import Names

LONGEST_NAME: Final = 127
"""The longest name of an exchange that clients and a bridge can publish to, in bytes. The definition of AMQP 0-9-1
allows no more, and client libraries check that. RabbitMQ itself takes longer names."""

Held = Literal["wait", "none", "deliver", "lose"]
"""What to do with messages that wait in the plugin when their exchange is to be replaced. `wait`: replace only after
the plugin has delivered them. `deliver`: the plugin delivers them through the plain exchange. `lose`: they may be lost.
`none`: the operator says that no node holds any."""


class Do(Enum):
    """The action that `apply` or `rollback` takes in a step. LOOK: no action, because people carry out the step."""

    DECLARE_INGRESS = "declare ingress"
    MAKE_PLAIN = "make plain"
    MAKE_DELAYED = "make delayed"
    DELETE_INGRESS = "delete ingress"
    LOOK = "look"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step for one exchange. `do`: the action. `what`: the step in words. `risk`: what may go wrong in the step.
    `back`: how to undo it. `waits_for`: why the step can't be done now; empty: it can be done, or is done."""

    exchange: str
    do: Do
    what: str
    risk: str
    back: str
    is_done: bool = False
    waits_for: str = ""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The operator's choices, as options of the command line. `publishers_moved`: publishers send to the new exchanges,
    or use the door. `publishers_back`: publishers send to the old exchanges again. `held`: what to do with messages in
    the plugin."""

    publishers_moved: bool = False
    publishers_back: bool = False
    held: Held = "wait"


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The cost of replacing an exchange. From the delete until the bindings existed again, messages for the exchange
    were unroutable. RabbitMQ dropped the messages whose delay in the plugin ended in that time.

    `lasted_s`: how many seconds that time lasted; None: an earlier command deleted the exchange. `held`: how many
    messages the plugin held before the replacement; None: unknown. `due_per_s`: how many messages a second the plugin
    delivered before the replacement; None: not measured.
    """

    exchange: str
    lasted_s: float | None
    held: int | None
    due_per_s: float | None = None

    @property
    def may_have_lost(self) -> bool:
        return self.held != 0

    @property
    def probably_lost(self) -> int | None:
        """The estimated number of lost messages: `due_per_s` times `lasted_s`, at most `held`. None: unknown."""
        if self.held is None or self.lasted_s is None or self.due_per_s is None:
            return None
        return min(self.held, ceil(self.due_per_s * self.lasted_s))


@dataclass(frozen=True, kw_only=True)
class Unsettled:
    """A replacement that was started and not finished, as the migration's file says. `towards`: the type that the
    exchange gets."""

    exchange: OldExchange
    towards: str


def forward(
    facts: Facts, names: Names, choices: Choices, unsettled: Mapping[str, Unsettled] | None = None
) -> tuple[Step, ...]:
    """Returns the steps of the migration in order, exchange by exchange. `unsettled`: replacements that have not ended,
    by exchange."""
    begun = unsettled or {}
    return tuple(
        step
        for exchange in with_missing(facts, begun)
        for step in _forward(exchange, facts, names, choices, is_begun=exchange.name in begun)
    )


def back(
    facts: Facts, names: Names, choices: Choices, unsettled: Mapping[str, Unsettled] | None = None
) -> tuple[Step, ...]:
    """Returns the steps of the rollback in order, exchange by exchange. `unsettled`: replacements that have not ended,
    by exchange."""
    begun = unsettled or {}
    return tuple(
        step
        for exchange in with_missing(facts, begun)
        for step in _back(exchange, facts, names, choices, is_begun=exchange.name in begun)
    )


def with_missing(facts: Facts, begun: Mapping[str, Unsettled]) -> Sequence[OldExchange]:
    """Returns the exchanges of `facts`, and the exchanges that an interrupted command has deleted and not declared
    again. `begun`: replacements that have not ended, by exchange."""
    present = {exchange.name for exchange in facts.exchanges}
    missing = [one.exchange for name, one in sorted(begun.items()) if name not in present]
    return [*facts.exchanges, *missing]


def refusal(exchange: OldExchange, names: Names) -> str:
    """Says why the exchange can't be migrated; empty if it can."""
    if not exchange.plain_type:
        return "it has no argument x-delayed-type, so its plain type is unknown"
    if exchange.definition.get("internal"):
        return "it is internal: neither clients nor a bridge can publish to it"
    return refusal_of_name(exchange.name, names)


def refusal_of_name(exchange: str, names: Names) -> str:
    """Says why an exchange of this name can have no ingress; empty if it can."""
    if not exchange:
        return "it has no name"
    ingress = f"{names.ingress}.{exchange}"
    if len(ingress.encode()) > LONGEST_NAME:
        return f"{ingress} has {len(ingress.encode())} bytes; clients can publish to names of up to {LONGEST_NAME}"
    return ""


def _forward(exchange: OldExchange, facts: Facts, names: Names, choices: Choices, *, is_begun: bool) -> Iterator[Step]:
    name, ingress = exchange.name, f"{names.ingress}.{exchange.name}"
    replaced = exchange.is_plain and not is_begun
    refused = refusal(exchange, names)
    missing = f"the virtual host {facts.vhost} has no queue {names.ingress}: run a bridge there first"
    yield Step(
        exchange=name,
        do=Do.DECLARE_INGRESS,
        what=f"Declare the exchange {ingress}, and bind it to the queue {names.ingress}.",
        risk="None: nobody publishes to it yet.",
        back="`rollback` deletes it.",
        is_done=exchange.has_ingress,
        waits_for=refused or ("" if facts.has_queue else missing),
    )
    yield Step(
        exchange=name,
        do=Do.LOOK,
        what=f"Let publishers send messages with x-delay to {ingress}, or through `delaybridge door`.",
        risk=" ".join(_risks_of_publishers(exchange, ingress)),
        back=f"Send to {name} again: nothing else has changed.",
        is_done=replaced or choices.publishers_moved,
        waits_for=refused or f"say --publishers-moved when no publisher sends x-delay to {name} any more",
    )
    held = "an unknown number of" if exchange.held is None else str(exchange.held)
    if not replaced:
        yield Step(
            exchange=name,
            do=Do.LOOK,
            what=f"Let the plugin deliver what it holds: {held} messages.",
            risk="None while the plugin is on. Switched off, it delivers none of them, nor when it is on again.",
            back="Nothing has changed.",
            is_done=not (waits := _held_waits(exchange, facts, choices)),
            waits_for=waits,
        )
    yield Step(
        exchange=name,
        do=Do.MAKE_PLAIN,
        what=_replacing(exchange, exchange.plain_type or "?"),
        risk=(
            f"For some milliseconds {name} does not exist: a publish or a bind then fails with 404."
            f" {_risk_of_letters(name, names)} From then on RabbitMQ refuses declares of {name} as {DELAYED}"
            " (406, or 503 without the plugin, which closes the connection). Such clients declare it passive, or use"
            f" the door.{_risk_of_held(exchange)}"
        ),
        back="`rollback`, while the plugin is on.",
        is_done=replaced,
        waits_for=refused
        or ("" if facts.has_queue else missing)
        or ("" if choices.publishers_moved or is_begun else "publishers go first")
        or ("" if is_begun and not exchange.is_delayed else _held_waits(exchange, facts, choices)),
    )


def _risk_of_letters(exchange: str, names: Names) -> str:
    return (
        f"The bridge that --url names pauses {names.topic_of_exchange(exchange)} meanwhile. Without --url, what a"
        f" bridge can't publish goes to {names.unroutable}, to be replayed."
    )


def _risk_of_held(exchange: OldExchange) -> str:
    if exchange.held_by_all == 0 or not exchange.is_delayed:
        return ""
    return " What the plugin has due in these milliseconds is lost: `apply` says how many messages that may be."


def _risks_of_publishers(exchange: OldExchange, ingress: str) -> Iterator[str]:
    yield f"A publish with x-delay to {exchange.name} is delivered at once when that is plain."
    if exchange.users:
        yield f"These users may not write to {ingress}: {', '.join(exchange.users)}. Grant it first."
    for feeder in exchange.feeders:
        yield f"Messages come from {feeder}: their x-delay counts no more."
    if exchange.policies:
        yield f"Policies apply to it, and go on: {', '.join(exchange.policies)}."


def _held_waits(exchange: OldExchange, facts: Facts, choices: Choices) -> str:
    if facts.plugin_is_on is False and exchange.is_delayed:
        if choices.held == "lose":
            return ""
        return "the plugin is off and delivers nothing: switch it on, or say --held lose"
    if choices.held in {"deliver", "lose"} or exchange.kind is None:
        return ""
    if exchange.held == 0:
        if choices.held == "none" or not exchange.elsewhere:
            return ""
        return (
            f"the plugin of the node that was asked holds none, and only {', '.join(exchange.elsewhere)} can say what"
            " theirs hold: ask each by --management-url, and then say --held none"
        )
    if exchange.held is None:
        return "nobody has asked the plugin what it holds"
    return (
        f"{exchange.held} messages wait in the plugin: wait until it has delivered them, which loses none. Or say"
        " --held deliver: those that are due in the milliseconds of the replacement are lost. The others come"
        f" through the plain {exchange.name}, if the plugin stays on"
    )


def _back(exchange: OldExchange, facts: Facts, names: Names, choices: Choices, *, is_begun: bool) -> Iterator[Step]:
    name, ingress = exchange.name, f"{names.ingress}.{exchange.name}"
    yield Step(
        exchange=name,
        do=Do.MAKE_DELAYED,
        what=_replacing(exchange, DELAYED),
        risk=(
            f"For some milliseconds {name} does not exist: a publish or a bind then fails with 404."
            f" {_risk_of_letters(name, names)} If the plugin still"
            " holds messages of it, after --held deliver, those that are due then are lost."
        ),
        back="`apply`.",
        is_done=exchange.is_delayed and not is_begun,
        waits_for="" if facts.plugin_is_on else f"RabbitMQ has no type {DELAYED}: switch the plugin on",
    )
    yield Step(
        exchange=name,
        do=Do.LOOK,
        what=f"Let publishers send messages with x-delay to {name} again, without the door.",
        risk=f"None: {ingress} still takes them. A bridge publishes waiting messages to {name} as before.",
        back=f"Send to {ingress}.",
        is_done=choices.publishers_back or not exchange.has_ingress,
        waits_for=f"say --publishers-back when no publisher sends to {ingress} any more",
    )
    yield Step(
        exchange=name,
        do=Do.DELETE_INGRESS,
        what=f"Delete the exchange {ingress}.",
        risk="A publish to it fails with 404 from then on.",
        back="`apply`.",
        is_done=not exchange.has_ingress,
        waits_for="" if choices.publishers_back else "publishers go first",
    )


def _replacing(exchange: OldExchange, kind: str) -> str:
    return f"Delete {exchange.name}, and declare it as {kind} with its {len(exchange.bindings)} bindings."
