"""Declares the wheel once a connection: everything but the queues of topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

import structlog

from bridge.broker.client.connection import BrokerConnection
from bridge.broker.declared.declare import Declarer, DeclareRefused, once_more
from bridge.broker.declared.lanes import Lanes
from bridge.broker.declared.young_queues import WHEEL, YoungQueues
from topology import plan
from topology.names import Names
from topology.wheel import route

log = structlog.get_logger(__name__)


class Wheel:
    """`lanes`: those that exist, with those of other bridges."""

    def __init__(
        self,
        connection: BrokerConnection,
        publishers: Collection[BrokerConnection],
        names: Names,
        *,
        declarer: Declarer,
        young: YoungQueues,
        turn: asyncio.Lock,
        lost: Callable[[], None],
    ) -> None:
        """Declares over `connection`. One of `publishers` that was lost may have been closed over a deleted object.
        `turn`: held during each declare. `lost`: called when an object was gone, so the queues of topics may be too."""
        self.lanes = Lanes(connection, names)
        self._connection = connection
        self._publishers = publishers
        self._names = names
        self._declarer = declarer
        self._young = young
        self._turn = turn
        self._lost = lost
        self._generation = 0

    @property
    def is_declared(self) -> bool:
        """Whether it was declared since a connection was last lost."""
        return self._generation == self._generations

    async def ensure(self) -> None:
        """Declares the wheel, unless this connection has done so.

        Raises:
            BrokerUnavailable
        """
        await self._connection.raw_connection()
        if self.is_declared:
            return
        async with self._turn:
            if not self.is_declared:
                await once_more(partial(self._declare, binds=False))

    async def renew(self) -> None:
        """Declares the wheel again, because an object was gone.

        Raises:
            BrokerUnavailable
        """
        await self.ensure()
        async with self._turn:
            await once_more(partial(self._declare, binds=True))
        self._young.declared(WHEEL)

    async def renew_slots(self, lane: int, left_ms: int) -> None:
        """Declares the slots for a delay of `left_ms` again, because a copy came out of the wheel with that delay left.

        One of its slots was gone.

        Raises:
            BrokerUnavailable
        """
        names = self._names.in_lane(lane)
        slots = route(names, left_ms, "").slots
        async with self._turn:
            await self._declarer.apply(plan.merged(plan.slot(names, hand, value) for hand, value in slots))
        self._young.declared(WHEEL)

    @property
    def _generations(self) -> int:
        return self._connection.generation + sum(publisher.generation for publisher in self._publishers)

    async def _declare(self, *, binds: bool) -> None:
        """Declares the wheel. Without `binds` it leaves the bindings of an existing wheel to the watch and to publishes
        that miss one: they are half of the declares."""
        generation = self._generations
        whole = plan.core(self._names) + plan.slots(self._names)
        # Queues are declared in the plan's order: if the last one exists, all do.
        exists = await self._declarer.exists(whole.queues[-1].name)
        if not exists:
            self._young.declaring(WHEEL)
        try:
            wanted = replace(whole, barring=()) if exists else whole
            if exists and not binds:
                wanted = replace(wanted, bindings=(), former=())
            await self._declarer.apply(wanted, existed=exists)
        except DeclareRefused as refusal:
            if not exists:
                raise
            # Another user has declared it, as an operator may want. The watch reports what is missing all the same.
            log.info("topology.not_allowed", detail="declared by another user", reason=str(refusal))
        if self._young.begun(WHEEL):
            self._young.declared(WHEEL)
        if binds or not exists:
            self._lost()
        await self.lanes.refresh(now=True)
        self._generation = generation
