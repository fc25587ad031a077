"""Carries out the steps of a migration and of the way back."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from topology import plan
from topology.definitions import export
from topology.errors import TopologyError
from topology.management import Management, quoted
from topology.migration.facts import DELAYED, Definition, OldExchange, without_vhost
from topology.migration.kept import KeptFile
from topology.migration.steps import Choices, Do, Step, back, forward
from topology.migration.survey import bindings_now, exchange_of, survey
from topology.names import Names

_ATTEMPTS: Final = 5


class NotReplaced(TopologyError):
    """An exchange could not be declared again. Its definition is in the file."""


@dataclass(frozen=True, kw_only=True)
class Migration:
    """A migration of one virtual host. `wanted`: names of exchanges; none: all of the plugin's type."""

    management: Management
    names: Names
    vhost: str
    file: KeptFile
    wanted: Collection[str] = ()

    async def apply(self, choices: Choices, did: Callable[[Step], None] = lambda step: None) -> Sequence[Step]:
        """Carries out each step that can be done, and calls `did` behind it. Returns the steps as they are then."""
        return await self._run(choices, forward, did)

    async def rollback(self, choices: Choices, did: Callable[[Step], None] = lambda step: None) -> Sequence[Step]:
        """The same on the way back."""
        return await self._run(choices, back, did)

    async def _run(
        self, choices: Choices, decide: Callable[..., Sequence[Step]], did: Callable[[Step], None]
    ) -> Sequence[Step]:
        # The facts are asked for again behind each step, as it changes them.
        while True:
            begun = self.file.read(self.vhost).begun
            facts = await survey(self.management, self.names, self.vhost, self.wanted, begun)
            steps = decide(facts, self.names, choices, self._wanted(begun))
            step = next((one for one in steps if one.do != Do.LOOK and not one.is_done and not one.waits_for), None)
            if step is None:
                return steps
            known = {exchange.name: exchange for exchange in facts.exchanges}
            kept = begun.get(step.exchange)
            await self._do(step, known.get(step.exchange), None if kept is None else kept.exchange)
            did(step)

    def _wanted(self, begun: Mapping[str, Any]) -> Mapping[str, Any]:
        return {name: one for name, one in begun.items() if not self.wanted or name in self.wanted}

    async def _do(self, step: Step, present: OldExchange | None, kept: OldExchange | None) -> None:
        match step.do:
            case Do.DECLARE_INGRESS:
                await self._import(export(plan.ingress_of(self.names, step.exchange), self.vhost))
            case Do.DELETE_INGRESS:
                await self._delete(self.names.ingress_of(step.exchange))
            case Do.MAKE_PLAIN | Do.MAKE_DELAYED:
                exchange = _merged(present, kept)
                await self._replace(exchange, exchange.plain_type if step.do == Do.MAKE_PLAIN else DELAYED)

    async def _replace(self, exchange: OldExchange, kind: str) -> None:
        """Deletes the exchange, unless it is missing or has this type already, and declares it as this type with its
        bindings. Looks again if RabbitMQ refuses that: a client may have declared it, or deleted a queue."""
        await self._import({})  # a user who may only delete is refused here
        self.file.begin(self.vhost, exchange, kind)
        refused: TopologyError | None = None
        for _ in range(_ATTEMPTS):
            found = await exchange_of(self.management, self.vhost, exchange.name)
            if found is not None and found["type"] != kind:
                # A consumer may have bound its queue since the facts were asked for.
                bindings = await bindings_now(self.management, self.vhost, exchange.name)
                exchange = replace(exchange, bindings=_united(exchange.bindings, bindings))
                self.file.begin(self.vhost, exchange, kind)
                await self._delete(exchange.name)
            try:
                await self._import(exchange.as_kind(kind))
            except TopologyError as error:
                refused = error
                exchange = await self._with_living_ends(exchange)
            else:
                held = exchange.held if kind != DELAYED and exchange.is_delayed else 0
                self.file.end(self.vhost, exchange.name, held)
                return
        raise NotReplaced(
            f"{exchange.name} could not be declared as {kind} in {_ATTEMPTS} attempts. If a client declares it as"
            f" another type meanwhile, stop that client or let it connect through the door. Then run the same command"
            f" again. RabbitMQ said: {refused}"
        )

    async def _with_living_ends(self, exchange: OldExchange) -> OldExchange:
        """The exchange without the bindings whose other end has gone."""
        place = quoted(self.vhost)
        living = {
            kind: {row["name"] for row in await self.management.get(f"{kind}s/{place}")} | {exchange.name}
            for kind in ("queue", "exchange")
        }
        bindings = [
            one
            for one in exchange.bindings
            if one["source"] in living["exchange"] and one["destination"] in living[one["destination_type"]]
        ]
        return replace(exchange, bindings=bindings)

    async def _import(self, definitions: Mapping[str, Any]) -> None:
        # In one call, so that an exchange is without its bindings for as short as possible.
        content = {"queues": [], **{kind: [*map(without_vhost, rows)] for kind, rows in definitions.items()}}
        await self.management.change("POST", f"definitions/{quoted(self.vhost)}", content)

    async def _delete(self, exchange: str) -> None:
        await self.management.change("DELETE", f"exchanges/{quoted(self.vhost)}/{quoted(exchange)}")


def _merged(present: OldExchange | None, kept: OldExchange | None) -> OldExchange:
    """What is to be declared: what exists, and what a file has kept of it."""
    if present is None or kept is None:
        found = present or kept
        assert found is not None
        return found
    return replace(present, bindings=_united(kept.bindings, present.bindings))


def _united(*bindings: Iterable[Definition]) -> tuple[Definition, ...]:
    """All of these bindings, each once."""
    return tuple({json.dumps(without_vhost(one), sort_keys=True): one for one in chain(*bindings)}.values())
