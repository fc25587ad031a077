"""What the bridge has seen to on the broker: the wheel, and topics from the moment they are first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from time import monotonic

import structlog
from aiormq.exceptions import ChannelNotFoundEntity

from bridge.broker.lanes import Lanes
from bridge.broker.link import Link, translated
from bridge.broker.young_queues import YoungQueues
from bridge.errors import BrokerUnavailable
from topology import plan
from topology.channels import look_at_all
from topology.declare import apply, remove
from topology.errors import TopologyConflict, TopologyError
from topology.names import Names
from topology.wheel import route

log = structlog.get_logger(__name__)

_DECLARE_TIMEOUT_S = 30.0  # for each lane: a new one takes a second; many queues on a busy cluster far longer
_BOUND_WITHIN_S = 1.0  # for each lane, what is bound already; a tenth of that on an idle broker
_BIND_AGAIN_AFTER_S = 30.0
_WHEEL = ""  # as a group of queues beside those of topics


class NotAllowed(BrokerUnavailable):
    """The user has no right to configure what is to be declared."""


class _Unanswered(BrokerUnavailable):
    """It was not declared in time."""


class Objects:
    """Declares what is needed before it is published to, once a connection.

    What is remembered is forgotten with the connection, so a broker that lost its objects gets them again.
    """

    def __init__(self, link: Link, names: Names, *, delivery_limit: int, publishers: Collection[Link]) -> None:
        """`link` is declared over. A link of `publishers` that was lost may have been so for an object that is gone."""
        self.names = names
        self.lanes = Lanes(link, names)
        self._declare_within_s = _DECLARE_TIMEOUT_S * names.lanes
        self._link = link
        self._publishers = publishers
        self._delivery_limit = delivery_limit
        self._declaring = asyncio.Lock()
        self._generation = 0
        self._topics: set[str] = set()
        self._direct: set[str] = set()
        self._young = YoungQueues()
        self._bind_again_s = 0.0

    async def ensure_wheel(self) -> None:
        """Sees to everything but topics.

        Raises:
            BrokerUnavailable
        """
        await self._link.connection()
        if self._generation == self._connections:
            return
        async with self._declaring:
            if self._generation == self._connections:
                return
            generation = self._connections
            whole = plan.core(self.names) + plan.slots(self.names)
            # Queues are declared in the plan's order: with the last one, all are there.
            stands = await self._exists(whole.queues[-1].name)
            if not stands:
                self._young.declaring(_WHEEL)
            try:
                await self._apply(whole, stands=stands)
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

    async def ensure_topic(self, topic: str) -> None:
        """Sees to a topic's ready and dead-letter queues.

        Raises:
            BrokerUnavailable
        """
        await self.ensure_wheel()
        if topic in self._topics:
            return
        async with self._declaring:
            if topic not in self._topics:
                stands = await self._exists(self.names.ready_queue(topic))
                if not stands:
                    self._young.declaring(topic)
                await self._apply(self._plan(topic, direct=topic in self._direct), stands=stands)
                (self._young.declared if self._young.begun(topic) else self._young.stands)(topic)
                self._topics.add(topic)

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
        channel = await self._link.channel()
        async with translated(_DECLARE_TIMEOUT_S):
            declared = await channel.queue_declare(queue, passive=True)
            await channel.close()
        return declared.message_count or 0

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
        async with self._declaring:
            await self._apply(plan.merged(plan.slot(names, hand, value) for hand, value in slots))
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
        connection = await self._link.connection()
        async with translated(self._declare_within_s):
            exchanges = [one for one, found in (await look_at_all(connection, wanted.exchanges)).items() if not found]
            queues = [one for one, found in (await look_at_all(connection, wanted.queues)).items() if not found]
        missing = plan.Plan(exchanges=tuple(exchanges), queues=tuple(queues), bindings=wanted.bindings)
        await self._apply(missing, stands=not exchanges and not queues)
        if exchanges or queues:
            self._young.declared(_WHEEL)
        return [one.name for one in exchanges] + [one.name for one in queues]

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
        await (self._apply(binding) if direct else self._remove(binding))

    async def remove_topic(self, topic: str) -> None:
        """Takes a topic's queues off the broker, with what is in them.

        Raises:
            BrokerUnavailable
        """
        await self.ensure_wheel()
        self._topics.discard(topic)
        self._young.forget(topic)
        await self._remove(self._plan(topic, direct=True))

    def _plan(self, topic: str, *, direct: bool) -> plan.Plan:
        return plan.topic(self.names, topic, direct=direct, delivery_limit=self._delivery_limit)

    async def _exists(self, queue: str) -> bool:
        channel = await self._link.channel()
        async with translated(_DECLARE_TIMEOUT_S):
            try:
                await channel.queue_declare(queue, passive=True)
            except ChannelNotFoundEntity:
                return False  # which has closed the channel
            await channel.close()
        return True

    async def _apply(self, wanted: plan.Plan, *, stands: bool = False) -> None:
        """`stands`: it was declared before, and is declared again in case somebody has deleted some of it."""
        try:
            await self._declare(plan.Plan(exchanges=wanted.exchanges, queues=wanted.queues), self._declare_within_s)
        except TopologyConflict as conflict:
            # It stands, with other arguments than ours: usable, and for an operator to look at.
            log.warning("topology.conflict", detail=str(conflict))
        bindings = plan.Plan(bindings=wanted.bindings)
        if not stands:
            await self._declare(bindings, self._declare_within_s)
        elif monotonic() >= self._bind_again_s:
            try:
                await self._declare(bindings, _BOUND_WITHIN_S * self.names.lanes)
            except _Unanswered:
                # While a node of a cluster is frozen, no other answers this (before Khepri), though messages pass.
                self._bind_again_s = monotonic() + _BIND_AGAIN_AFTER_S
                log.warning("topology.unanswered", detail="bindings that should stand were not declared again")

    async def _declare(self, wanted: plan.Plan, timeout_s: float) -> None:
        connection = await self._link.connection()
        try:
            async with translated():
                try:
                    await apply(connection, wanted, timeout_s=timeout_s)
                except TimeoutError:
                    raise _Unanswered("RabbitMQ did not declare in time") from None
        except TopologyConflict:
            raise
        except TopologyError as error:
            if "ACCESS_REFUSED" in str(error):
                raise NotAllowed(str(error)) from error
            raise BrokerUnavailable(str(error)) from error

    async def _remove(self, unwanted: plan.Plan) -> None:
        connection = await self._link.connection()
        try:
            async with translated(_DECLARE_TIMEOUT_S):
                await remove(connection, unwanted, timeout_s=_DECLARE_TIMEOUT_S)
        except TopologyError as error:
            raise BrokerUnavailable(str(error)) from error
