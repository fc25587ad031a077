"""What the bridge has seen to on the broker: the wheel, and topics from the moment they are first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import replace
from functools import partial

import structlog

from bridge.broker.client.connection import BrokerConnection
from bridge.broker.declared.declare import Declarer, NotAllowed, Vanished
from bridge.broker.declared.lanes import Lanes
from bridge.broker.declared.young_queues import YoungQueues
from topology import plan
from topology.names import Names
from topology.wheel import route

log = structlog.get_logger(__name__)

_WHEEL = ""  # as a group of queues beside those of topics


class Declared:
    """Declares what is needed before it is published to, once a connection.

    What is remembered is forgotten with the connection, so a broker that lost its objects gets them again.
    """

    def __init__(
        self, link: BrokerConnection, names: Names, *, delivery_limit: int, publishers: Collection[BrokerConnection]
    ) -> None:
        """`link` is declared over. A link of `publishers` that was lost may have been so for an object that is gone."""
        self.names = names
        self.lanes = Lanes(link, names)
        self._link = link
        self._publishers = publishers
        self._delivery_limit = delivery_limit
        self._declaring = Declarer(link, lanes=names.lanes)
        self._one_at_a_time = asyncio.Lock()
        self._generation = 0
        self._topics: set[str] = set()
        self._direct: set[str] = set()
        self._young = YoungQueues()

    async def ensure_wheel(self) -> None:
        """Sees to everything but topics.

        Raises:
            BrokerUnavailable
        """
        await self._link.connection()
        if self._generation == self._connections:
            return
        async with self._one_at_a_time:
            if self._generation != self._connections:
                await _once_more(self._declare_wheel)

    async def ensure_topic(self, topic: str) -> None:
        """Sees to a topic's ready and dead-letter queues.

        Raises:
            BrokerUnavailable
        """
        await self.ensure_wheel()
        if topic in self._topics:
            return
        async with self._one_at_a_time:
            if topic not in self._topics:
                await _once_more(partial(self._declare_topic, topic))

    @property
    def _connections(self) -> int:
        return self._link.generation + sum(link.generation for link in self._publishers)

    def unsettled(self, topic: str) -> bool:
        """Whether a confirm by the topic's queues does not count yet."""
        return self._young.unsettled(topic)

    def know_standing(self, topics: Iterable[str]) -> None:
        """Takes note of topics whose queues stand, before they are first used here."""
        for topic in topics:
            self._young.stands(topic)

    async def settled(self, topics: Collection[str], *, old: Iterable[str]) -> None:
        """Waits until confirms by the wheel's queues, and by these topics', outlive a kill of the broker. `old`: topics
        that a message shows to have been there for seconds."""
        for topic in old:
            self._young.old(topic)
        await self._young.settled((_WHEEL, *topics))

    async def depth(self, queue: str) -> int:
        """How many messages stand in the queue, without those that consumers hold.

        Raises:
            BrokerUnavailable
            QueueMissing: it does not stand.
        """
        return await self._declaring.depth(queue)

    async def checkpoint_depth(self) -> int:
        """How many messages stand before the checkpoint, in all lanes, without those that bridges hold.

        Raises:
            BrokerUnavailable
            QueueMissing: a lane's queue does not stand.
        """
        await self.lanes.look()
        return sum([await self.depth(lane.checkpoint) for lane in self.lanes.standing.each_lane])

    async def renew_slots(self, lane: int, left_ms: int) -> None:
        """Declares the slots of a delay again: a copy came out of a lane's wheel with so much left, since one did not
        stand.

        Raises:
            BrokerUnavailable
        """
        names = self.names.in_lane(lane)
        slots = route(names, left_ms, "").slots
        async with self._one_at_a_time:
            await self._declaring.apply(plan.merged(plan.slot(names, hand, value) for hand, value in slots))
        self._young.declared(_WHEEL)

    async def renew_wheel(self) -> None:
        """Declares everything but topics again: something of it did not stand.

        Raises:
            BrokerUnavailable
        """
        self._generation = -1
        await self.ensure_wheel()
        self._young.declared(_WHEEL)

    async def renew_topic(self, topic: str) -> None:
        """Declares a topic's queues again: one did not stand.

        Raises:
            BrokerUnavailable
        """
        self._topics.discard(topic)
        await self.ensure_topic(topic)

    def wanted(self, topics: Iterable[str]) -> plan.Plan:
        """All that has to stand with these topics."""
        of_topics = (self._plan(topic, direct=topic in self._direct) for topic in topics)
        return plan.merged((plan.core(self.names), plan.slots(self.names), *of_topics))

    async def mend(self, wanted: plan.Plan) -> list[str]:
        """Declares what is missing of it, and binds all of it again; the names of what was missing.

        Raises:
            BrokerUnavailable
        """
        missing = await self._declaring.missing(wanted)
        names = [one.name for one in missing.exchanges] + [one.name for one in missing.queues]
        await self._declaring.apply(replace(missing, bindings=wanted.bindings), stood=not names)
        if names:
            self._young.declared(_WHEEL)
        return names

    def know_direct(self, topic: str, direct: bool) -> None:
        """Takes note of a policy, for when the topic's queues are declared again."""
        (self._direct.add if direct else self._direct.discard)(topic)

    async def set_direct(self, topic: str, direct: bool) -> None:
        """Makes the topic's due messages pass the checkpoint by, or not.

        Raises:
            BrokerUnavailable
        """
        was_direct = topic in self._direct
        self.know_direct(topic, direct)
        await self.ensure_topic(topic)
        if was_direct and not direct:
            # Else what waits in a lane of another bridge would go on passing its checkpoint by.
            await self.lanes.look(now=True)
        names = self.names if direct else self.lanes.standing
        checked, bound = plan.topic(names, topic), plan.topic(names, topic, direct=True)
        binding = plan.Plan(bindings=tuple(one for one in bound.bindings if one not in checked.bindings))
        await (self._declaring.apply(binding) if direct else self._declaring.remove(binding))

    async def remove_topic(self, topic: str) -> None:
        """Takes a topic's queues off the broker, with what is in them.

        Raises:
            BrokerUnavailable
        """
        await self.ensure_wheel()
        self._topics.discard(topic)
        self._young.forget(topic)
        await self._declaring.remove(self._plan(topic, direct=True))

    async def _declare_wheel(self) -> None:
        generation = self._connections
        whole = plan.core(self.names) + plan.slots(self.names)
        # Queues are declared in the plan's order: with the last one, all are there.
        stands = await self._declaring.stands(whole.queues[-1].name)
        if not stands:
            self._young.declaring(_WHEEL)
        try:
            await self._declaring.apply(whole, stood=stands)
        except NotAllowed:
            if not stands:
                raise
            # Declared by somebody else, as an operator may want it.
            log.info("topology.not_allowed", detail="declared by another user")
        if self._young.begun(_WHEEL):
            self._young.declared(_WHEEL)
        self._topics.clear()
        await self.lanes.look(now=True)
        self._generation = generation

    async def _declare_topic(self, topic: str) -> None:
        stands = await self._declaring.stands(self.names.ready_queue(topic))
        if not stands:
            self._young.declaring(topic)
        await self._declaring.apply(self._plan(topic, direct=topic in self._direct), stood=stands)
        (self._young.declared if self._young.begun(topic) else self._young.stands)(topic)
        self._topics.add(topic)

    def _plan(self, topic: str, *, direct: bool) -> plan.Plan:
        return plan.topic(self.names, topic, direct=direct, delivery_limit=self._delivery_limit)


async def _once_more(declare: Callable[[], Awaitable[None]]) -> None:
    """A queue that is being deleted can still be declared until it is gone; its consumers are told sooner."""
    try:
        await declare()
    except Vanished:
        await declare()
