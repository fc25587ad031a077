"""Declares the wheel once for each connection. Here the wheel is every object but the queues of topics."""

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
    """Declares the wheel on the broker. `lanes`: all lanes that exist, also those that only other bridges have."""

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
        """`connection`: the connection for declares. `publishers`: further connections. After the loss of any of these
        connections the wheel is declared again: RabbitMQ may have closed the connection because somebody deleted an
        object. `turn`: held during each declare. `lost`: called when an object was gone, because the queues of topics
        may also be gone."""
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
        """Whether the wheel needs no declare. False after a connection was opened or replaced, until the wheel is
        declared again. True before the first connection."""
        return self._generation == self._generations

    async def ensure(self) -> None:
        """Declares the wheel, unless it was declared since a connection was last lost.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
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
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        """
        await self.ensure()
        async with self._turn:
            await once_more(partial(self._declare, binds=True))
        self._young.declared(WHEEL)

    async def renew_slots(self, lane: int, left_ms: int) -> None:
        """Declares the slots for a delay of `left_ms` again.

        Call this when a copy came out of the wheel too early, with that delay left: one of its slots was gone.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        """
        names = self._names.in_lane(lane)
        slots = route(names, left_ms, "").slots
        async with self._turn:
            await self._declarer.apply(plan.merged(plan.slot(names, hand, value) for hand, value in slots))
        self._young.declared(WHEEL)

    @property
    def _generations(self) -> int:
        return self._connection.generation + sum(publisher.replaced for publisher in self._publishers)

    async def _declare(self, *, binds: bool) -> None:
        """Declares the wheel. `binds` False: if the wheel exists, skips the bindings, which are half of the work.
        Missing bindings are then found by `loops/watch.py`, or by a publish that fails."""
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
            # Another user has declared the wheel, as an operator may want. The watch still reports missing objects.
            log.info("topology.not_allowed", detail="declared by another user", reason=str(refusal))
        if self._young.begun(WHEEL):
            self._young.declared(WHEEL)
        if binds or not exists:
            self._lost()
        await self.lanes.refresh(now=True)
        self._generation = generation
