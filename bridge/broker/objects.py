"""What the bridge has seen to on the broker: the core, and slots and topics from the moment they are first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import structlog

from bridge.broker.link import Link, translated
from bridge.errors import BrokerUnavailable
from topology import plan
from topology.declare import apply, remove
from topology.errors import TopologyConflict, TopologyError
from topology.names import Names
from topology.wheel import Slot, route

log = structlog.get_logger(__name__)

# A first declare of a queue forms its Raft group, which takes far longer than a publish.
_DECLARE_TIMEOUT_S = 10.0


class Objects:
    """Declares what is needed before it is first published to, once a connection.

    What is remembered is forgotten with the connection, so a broker that lost its objects gets them again.
    """

    def __init__(self, link: Link, names: Names, *, delivery_limit: int) -> None:
        self.names = names
        self._link = link
        self._delivery_limit = delivery_limit
        self._declaring = asyncio.Lock()
        self._generation = 0
        self._slots: set[Slot] = set()
        self._topics: set[str] = set()

    async def ensure_core(self) -> None:
        """
        Raises:
            BrokerUnavailable
        """
        await self._link.connection()
        if self._generation != self._link.generation:
            async with self._declaring:
                if self._generation != self._link.generation:
                    generation = self._link.generation
                    await self._apply(plan.core(self.names))
                    self._slots.clear()
                    self._topics.clear()
                    self._generation = generation

    async def ensure_slots(self, slots: Iterable[Slot]) -> None:
        """Sees to the slots' queues and their bindings.

        Raises:
            BrokerUnavailable
        """
        await self.ensure_core()
        if missing := set(slots) - self._slots:
            async with self._declaring:
                missing -= self._slots
                if missing:
                    await self._apply(plan.merged(plan.slot(self.names, hand, value) for hand, value in missing))
                    self._slots |= missing

    async def ensure_topic(self, topic: str) -> None:
        """Sees to a topic's ready and dead-letter queues.

        Raises:
            BrokerUnavailable
        """
        await self.ensure_core()
        if topic not in self._topics:
            async with self._declaring:
                if topic not in self._topics:
                    await self._apply(self._plan(topic, direct=False))
                    self._topics.add(topic)

    async def set_direct(self, topic: str, direct: bool) -> None:
        """Makes the topic's due messages pass the checkpoint by, or not.

        Raises:
            BrokerUnavailable
        """
        await self.ensure_topic(topic)
        checked, bound = self._plan(topic, direct=False), self._plan(topic, direct=True)
        binding = plan.Plan(bindings=tuple(one for one in bound.bindings if one not in checked.bindings))
        await (self._apply(binding) if direct else self._remove(binding))

    def doubt_slots(self, left_ms: int) -> None:
        """A copy came out of the wheel with so much of its key's delay left, since a slot did not stand: the next need
        declares those on its way again."""
        self._slots -= set(route(self.names, left_ms, "").slots)

    def doubt_topic(self, topic: str) -> None:
        self._topics.discard(topic)

    async def remove_topic(self, topic: str) -> None:
        """Takes a topic's queues off the broker, with what is in them.

        Raises:
            BrokerUnavailable
        """
        await self.ensure_core()
        self.doubt_topic(topic)
        await self._remove(self._plan(topic, direct=True))

    def _plan(self, topic: str, *, direct: bool) -> plan.Plan:
        return plan.topic(self.names, topic, direct=direct, delivery_limit=self._delivery_limit)

    async def _apply(self, wanted: plan.Plan) -> None:
        connection = await self._link.connection()
        try:
            async with translated(_DECLARE_TIMEOUT_S):
                await apply(connection, wanted, timeout_s=_DECLARE_TIMEOUT_S)
        except TopologyConflict as conflict:
            # It stands, with other arguments than ours: usable, and for an operator to look at.
            log.warning("topology.conflict", detail=str(conflict))
            async with translated(_DECLARE_TIMEOUT_S):
                await apply(connection, plan.Plan(bindings=wanted.bindings), timeout_s=_DECLARE_TIMEOUT_S)
        except TopologyError as error:
            raise BrokerUnavailable(str(error)) from error

    async def _remove(self, unwanted: plan.Plan) -> None:
        connection = await self._link.connection()
        try:
            async with translated(_DECLARE_TIMEOUT_S):
                await remove(connection, unwanted, timeout_s=_DECLARE_TIMEOUT_S)
        except TopologyError as error:
            raise BrokerUnavailable(str(error)) from error
