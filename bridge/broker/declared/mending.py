"""Declares missing objects one by one, after RabbitMQ has refused some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from bridge.broker.declared.declare import Declarer, DeclareRefused, NotAllowed
from topology.plan import Plan

_MOST_REFUSALS: Final = 20
"""After this many refusals the rest is not tried. RabbitMQ logs each refusal, and most often has one reason for all."""


@dataclass(frozen=True, slots=True)
class Mended:
    """The result of a try to declare missing objects. `declared`: the names of the objects that exist now. `refused`:
    RabbitMQ's reason by name, for each object that RabbitMQ refused to declare. `untried`: the names of objects that
    were not tried after twenty refusals."""

    declared: Sequence[str]
    refused: Mapping[str, str] = field(default_factory=dict)
    untried: Sequence[str] = ()

    @property
    def missing(self) -> set[str]:
        """The names of the objects that are still missing."""
        return {*self.refused, *self.untried}


async def mend_each(declarer: Declarer, unmet: Plan) -> Mended:
    """Declares each exchange and queue of the plan by a separate call, then binds the objects that exist. Returns what
    was declared, refused and not tried. `unmet`: the plan of the missing objects, with the bindings of all objects.

    Raises:
        BrokerUnavailable: RabbitMQ is away, or does not answer in time.
    """
    exchanges = {exchange.name: Plan(exchanges=(exchange,)) for exchange in unmet.exchanges}
    queues = {queue.name: Plan(queues=(queue,)) for queue in unmet.queues}
    declared: list[str] = []
    refused: dict[str, str] = {}
    untried: list[str] = []
    for name, alone in (*exchanges.items(), *queues.items()):
        if len(refused) == _MOST_REFUSALS:
            untried.append(name)
            continue
        try:
            await declarer.apply(alone)
        except DeclareRefused as refusal:
            refused[name] = str(refusal)
        else:
            declared.append(name)
    mended = Mended(declared, refused, untried)
    missing = mended.missing
    bindings = [bound for bound in unmet.bindings if missing.isdisjoint((bound.source, bound.destination))]
    with suppress(NotAllowed):  # another user has bound them
        await declarer.apply(Plan(bindings=tuple(bindings), former=unmet.former))
    return mended
