"""Carries out the steps of a migration, or of its rollback."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from topology import plan
from topology.definitions import export
from topology.errors import TopologyError
from topology.management import Management, quoted
from topology.migration.bridge import Bridge
from topology.migration.facts import DELAYED, Definition, OldExchange, without_vhost
from topology.migration.kept import KeptFile
from topology.migration.steps import Choices, Do, Gap, Step, back, forward
from topology.migration.survey import bindings_now, exchange_of, held_by_plugin, survey
from topology.names import Names

_ATTEMPTS: Final = 5
_PACE_S: Final = 1.0
"""For how many seconds a migration measures the plugin's pace before a replacement that may lose messages."""
_SETTLED_S: Final = 3.0
"""How many seconds a bridge may still publish after a pause: its processes follow within two seconds, and then finish
the publishes in flight."""
_REPLACEMENTS: Final = (Do.MAKE_PLAIN, Do.MAKE_DELAYED)

Did = Callable[[Step, Gap | None], None]
"""A function that is called after each step. After a replacement of an exchange it also gets the cost of the
replacement; None after other steps."""


def _silent(_: Step, __: Gap | None) -> None:
    return


class NotReplaced(TopologyError):
    """An exchange was not replaced, or could not be declared again. In the second case the migration's file has its
    definition."""


@dataclass(frozen=True, kw_only=True)
class Migration:
    """A migration of one virtual host. `wanted`: names of exchanges; empty: all exchanges that are or were of the type
    of the delayed-message plugin. `bridge`: the bridge that holds back messages for an exchange during its replacement.
    None: messages that are due in that time become dead letters."""

    management: Management
    names: Names
    vhost: str
    file: KeptFile
    wanted: Collection[str] = ()
    bridge: Bridge | None = None

    async def apply(self, choices: Choices, did: Did = _silent) -> Sequence[Step]:
        """Carries out each step that can be done, and calls `did` after each step. Returns all steps in their final
        state.

        Raises:
            TopologyError: RabbitMQ or the bridge refused a step, an exchange was not replaced, or the file can't be
                used.
            ValueError: the virtual host or a wanted exchange does not exist.
            httpx2.HTTPError: RabbitMQ refused a question, or did not answer.
        """
        return await self._run(choices, forward, did)

    async def rollback(self, choices: Choices, did: Did = _silent) -> Sequence[Step]:
        """Carries out each step of the rollback that can be done, and calls `did` after each step. Returns all steps in
        their final state. Raises the errors of `apply`."""
        return await self._run(choices, back, did)

    async def _run(self, choices: Choices, decide: Callable[..., Sequence[Step]], did: Did) -> Sequence[Step]:
        try:
            return await self._steps(choices, decide, did)
        finally:
            await self._resume()

    async def _steps(self, choices: Choices, decide: Callable[..., Sequence[Step]], did: Did) -> Sequence[Step]:
        # Each step changes the facts, so they are asked for again after it.
        held_back: set[str] = set()
        while True:
            begun = self.file.read(self.vhost).begun
            facts = await survey(self.management, self.names, self.vhost, self.wanted, begun)
            steps = decide(facts, self.names, choices, self._wanted(begun))
            step = next((one for one in steps if one.do != Do.LOOK and not one.is_done and not one.waits_for), None)
            if step is None:
                return steps
            if step.do in _REPLACEMENTS and step.exchange not in held_back:
                ready = (one for one in steps if one.do in _REPLACEMENTS and not (one.is_done or one.waits_for))
                next_ones = {one.exchange for one in ready}
                await self._hold_back(next_ones)
                held_back |= next_ones
                continue
            known = {exchange.name: exchange for exchange in facts.exchanges}
            kept = begun.get(step.exchange)
            did(step, await self._do(step, choices, known.get(step.exchange), None if kept is None else kept.exchange))

    async def _hold_back(self, exchanges: Iterable[str]) -> None:
        """Pauses the topics of the exchanges. After a pause, waits `_SETTLED_S` until the bridge's processes no longer
        publish to the exchanges. Does nothing without a bridge."""
        if self.bridge is None:
            return
        are_paused = False
        for exchange in sorted(exchanges):
            topic = self.names.topic_of_exchange(exchange)
            if await self.bridge.may_be_paused(topic):
                self.file.pause(self.vhost, exchange)
                await self.bridge.pause(topic)
                are_paused = True
        if are_paused:
            await asyncio.sleep(_SETTLED_S)

    async def _resume(self) -> None:
        """Resumes the topics that a command has paused. A topic stays paused while the replacement of its exchange is
        unfinished, and if there is no bridge to call."""
        kept = self.file.read(self.vhost)
        for exchange in kept.paused:
            if self.bridge is not None and exchange not in kept.begun:
                await self.bridge.resume(self.names.topic_of_exchange(exchange))
                self.file.resume(self.vhost, exchange)

    def _wanted(self, begun: Mapping[str, Any]) -> Mapping[str, Any]:
        return {name: one for name, one in begun.items() if not self.wanted or name in self.wanted}

    async def _do(
        self, step: Step, choices: Choices, present: OldExchange | None, kept: OldExchange | None
    ) -> Gap | None:
        match step.do:
            case Do.DECLARE_INGRESS:
                await self._import(export(plan.ingress_of(self.names, step.exchange), self.vhost))
            case Do.DELETE_INGRESS:
                await self._delete(self.names.ingress_of(step.exchange))
            case Do.MAKE_PLAIN | Do.MAKE_DELAYED:
                exchange = _merged(present, kept)
                if kept is not None and (exchange.is_plain or step.do == Do.MAKE_DELAYED):
                    exchange = replace(exchange, held=kept.held)
                elif exchange.is_plain:  # RabbitMQ no longer counts the messages that the plugin holds for it
                    exchange = replace(exchange, held=self.file.read(self.vhost).held.get(exchange.name, 0))
                if choices.held == "none":
                    exchange = replace(exchange, elsewhere=())
                kind = exchange.plain_type if step.do == Do.MAKE_PLAIN else DELAYED
                return await self._replace(exchange, kind, may_lose=choices.held in {"deliver", "lose"})
        return None

    async def _replace(self, exchange: OldExchange, kind: str, *, may_lose: bool) -> Gap:
        """Deletes the exchange and declares it as `kind` with its bindings. Skips the delete if the exchange is missing
        or already has the type `kind`. If RabbitMQ refuses the declare, tries again: a client may have declared the
        exchange, or deleted a queue. `may_lose`: whether messages that the plugin holds may be lost."""
        await self._import({})  # a user who may only delete is refused here
        exchange, due_per_s = await self._with_held(exchange, kind, may_lose=may_lose)
        gone_at: float | None = None
        self.file.begin(self.vhost, exchange, kind)
        refused: TopologyError | None = None
        for _ in range(_ATTEMPTS):
            found = await exchange_of(self.management, self.vhost, exchange.name)
            if found is not None and found["type"] != kind:
                # A consumer may have bound its queue since the facts were asked for.
                bindings = await bindings_now(self.management, self.vhost, exchange.name)
                exchange = replace(exchange, bindings=_united(exchange.bindings, bindings))
                self.file.begin(self.vhost, exchange, kind)
                gone_at = gone_at or time.monotonic()
                await self._delete(exchange.name)
            try:
                await self._import(exchange.as_kind(kind))
            except TopologyError as error:
                refused = error
                exchange = await self._with_living_ends(exchange)
            else:
                lasted_s = None if gone_at is None else time.monotonic() - gone_at
                self.file.end(self.vhost, exchange.name, 0 if kind == DELAYED else exchange.held)
                return Gap(exchange=exchange.name, lasted_s=lasted_s, held=exchange.held, due_per_s=due_per_s)
        raise NotReplaced(
            f"{exchange.name} could not be declared as {kind} in {_ATTEMPTS} attempts. If a client declares it as"
            f" another type meanwhile, stop that client or let it connect through the door. Then run the same command"
            f" again. RabbitMQ said: {refused}"
        )

    async def _with_held(self, exchange: OldExchange, kind: str, *, may_lose: bool) -> tuple[OldExchange, float | None]:
        """Returns the exchange with its present `held`, and how many messages a second the plugin delivers; None: not
        measured.

        Raises:
            NotReplaced: the plugin may hold messages, and `may_lose` is False.
        """
        if not exchange.is_delayed or kind == DELAYED:
            return exchange, None
        held = await held_by_plugin(self.management, self.vhost, exchange.name)
        if not may_lose and held != 0:
            raise NotReplaced(
                f"{exchange.name} was not replaced: the plugin holds {'?' if held is None else held} messages of it,"
                " which came after it had none. Is there a publisher that still sends x-delay to it?"
            )
        if not held or exchange.elsewhere:
            return replace(exchange, held=None if exchange.elsewhere else held), None
        began = time.monotonic()
        await asyncio.sleep(_PACE_S)
        later = await held_by_plugin(self.management, self.vhost, exchange.name)
        pace = None if later is None else max(0, held - later) / (time.monotonic() - began)
        return replace(exchange, held=later), pace

    async def _with_living_ends(self, exchange: OldExchange) -> OldExchange:
        """Returns the exchange without the bindings whose other end no longer exists."""
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
    """Returns the exchange to declare. It has the bindings of `present`, the existing exchange, and of `kept`, the
    exchange in the file. One of the two may be None."""
    if present is None or kept is None:
        found = present or kept
        assert found is not None
        return found
    return replace(present, bindings=_united(kept.bindings, present.bindings))


def _united(*bindings: Iterable[Definition]) -> tuple[Definition, ...]:
    """Returns the bindings of all arguments, each binding once."""
    return tuple({json.dumps(without_vhost(one), sort_keys=True): one for one in chain(*bindings)}.values())
