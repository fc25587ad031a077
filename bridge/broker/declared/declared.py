"""Declares the wheel, and the queues of topics when they are first needed, and remembers what it has declared."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import replace
from functools import partial

import structlog

from bridge.broker.client.connection import BrokerConnection
from bridge.broker.declared.declare import Declarer, NotAllowed, once_more
from bridge.broker.declared.lanes import Lanes
from bridge.broker.declared.topic_queues import TopicQueues
from bridge.broker.declared.young_queues import WHEEL, YoungQueues
from topology import plan
from topology.names import Names
from topology.wheel import route

log = structlog.get_logger(__name__)


class Declared:
    """Declares objects before they are published to: the wheel once a connection, and a topic once.

    A broker that lost the wheel with its objects gets all of them again. While the wheel exists, the topics are taken
    to exist too. A publish that finds no queue has its topic declared again (`CopyPublisher`).
    """

    def __init__(
        self,
        connection: BrokerConnection,
        names: Names,
        *,
        delivery_limit: int,
        publishers: Collection[BrokerConnection],
    ) -> None:
        """Declares over `connection`. One of `publishers` that was lost may have been closed over a deleted object."""
        self.lanes = Lanes(connection, names)
        self._names = names
        self._connection = connection
        self._publishers = publishers
        self._declarer = Declarer(connection, lanes=names.lanes)
        self._one_at_a_time = asyncio.Lock()
        self._looking = asyncio.Lock()  # one channel at a time: anybody may ask about any number of topics
        self._generation = 0
        self._young = YoungQueues()
        self._topics = TopicQueues(
            self._declarer, names, self._young, self._one_at_a_time, delivery_limit=delivery_limit
        )

    @property
    def acks_queue(self) -> str:
        """The queue into which AMQP consumers publish their recorded acks."""
        return self._names.acks

    def checkpoint_queue(self, lane: int) -> str:
        """Returns the queue of a lane's checkpoint."""
        return self._names.in_lane(lane).checkpoint

    def ready_queue(self, topic: str) -> str:
        """Returns the queue from which the topic's due messages are consumed."""
        return self._names.ready_queue(topic)

    def dead_queue(self, topic: str) -> str:
        """Returns the queue of the topic's dead letters."""
        return self._names.dead_queue(topic)

    async def ensure_wheel(self) -> None:
        """Declares everything but topics, unless this connection has done so.

        Raises:
            BrokerUnavailable
        """
        await self._connection.raw_connection()
        if self._generation == self._generations:
            return
        async with self._one_at_a_time:
            if self._generation != self._generations:
                await once_more(partial(self._declare_wheel, binds=False))

    async def ensure_topic(self, topic: str) -> None:
        """Declares a topic's ready and dead-letter queues, unless this connection has done so.

        Raises:
            BrokerUnavailable
        """
        await self.ensure_wheel()
        await self._topics.declare(topic)

    def has_topic(self, topic: str) -> bool:
        """Returns whether this connection has declared the topic's queues."""
        return self._generation == self._generations and topic in self._topics.declared

    async def finds_topic(self, topic: str) -> bool:
        """Returns whether the topic has a ready queue, and declares nothing.

        Raises:
            BrokerUnavailable
        """
        async with self._looking:
            return self.has_topic(topic) or await self._declarer.exists(self._names.ready_queue(topic))

    def forget_topics(self, topics: Iterable[str]) -> None:
        """Forgets that topics were declared, because a queue was gone."""
        self._topics.declared.difference_update(topics)

    @property
    def _generations(self) -> int:
        return self._connection.generation + sum(publisher.generation for publisher in self._publishers)

    def unsettled(self, topic: str) -> bool:
        """Returns whether a confirm by the topic's queues does not count yet."""
        return self._young.unsettled(topic)

    def note_existing(self, topics: Iterable[str]) -> None:
        """Notes topics whose queues exist, before this process first uses them."""
        for topic in topics:
            self._young.exists(topic)

    async def settled(self, topics: Collection[str], *, old: Iterable[str]) -> None:
        """Waits until confirms by the queues of the wheel and of these topics survive a kill of the broker.

        `old`: topics that, as a message shows, have existed for seconds.
        """
        for topic in old:
            self._young.old(topic)
        await self._young.settled((WHEEL, *topics))

    async def depth(self, queue: str) -> int:
        """Returns how many messages are ready in the queue, without those that consumers hold.

        Raises:
            BrokerUnavailable
            QueueMissing
        """
        return await self._declarer.depth(queue)

    async def checkpoint_depth(self) -> int:
        """Returns how many messages wait before the checkpoint, in all lanes, without those that bridges hold.

        Raises:
            BrokerUnavailable
            QueueMissing: the queue of a lane is gone.
        """
        await self.lanes.refresh()
        return sum([await self.depth(lane.checkpoint) for lane in self.lanes.existing.each_lane])

    async def renew_slots(self, lane: int, left_ms: int) -> None:
        """Declares the slots for a delay of `left_ms` again, because a copy came out of the wheel with that delay left.

        One of its slots was gone.

        Raises:
            BrokerUnavailable
        """
        names = self._names.in_lane(lane)
        slots = route(names, left_ms, "").slots
        async with self._one_at_a_time:
            await self._declarer.apply(plan.merged(plan.slot(names, hand, value) for hand, value in slots))
        self._young.declared(WHEEL)

    async def renew_wheel(self) -> None:
        """Declares everything but topics again, because an object was gone.

        Raises:
            BrokerUnavailable
        """
        await self.ensure_wheel()
        async with self._one_at_a_time:
            await once_more(partial(self._declare_wheel, binds=True))
        self._young.declared(WHEEL)

    def wanted(self, topics: Iterable[str]) -> plan.Plan:
        """Returns the plan of everything that has to exist with these topics."""
        of_topics = (self._topics.plan(topic, direct=topic in self._topics.direct) for topic in topics)
        return plan.merged((plan.core(self._names), plan.slots(self._names), *of_topics))

    async def mend(self, wanted: plan.Plan, listed: Callable[[], Awaitable[Collection[str]]]) -> list[str]:
        """Declares the missing objects of the plan, and binds all objects again. Returns the names of the missing ones.

        `listed`: reads the list of topics, after the search for missing queues. Queues of other topics stay missing: a
        removal takes its topic off the list before it deletes the queues.

        Raises:
            Unavailable
        """
        missing = await self._declarer.missing(wanted)
        if missing.queues:
            wanted, gone = self.wanted(await listed()), set(missing.queues)
            missing = replace(missing, queues=tuple(queue for queue in wanted.queues if queue in gone))
        names = [exchange.name for exchange in missing.exchanges] + [queue.name for queue in missing.queues]
        unmet = replace(wanted, exchanges=missing.exchanges, queues=missing.queues)
        await self._declarer.apply(unmet, existed=not names)
        if names:
            self._young.declared(WHEEL)
        return names

    def know_direct(self, topic: str, direct: bool) -> None:
        """Notes whether a topic is direct, for when its queues are declared again."""
        (self._topics.direct.add if direct else self._topics.direct.discard)(topic)

    async def set_direct(self, topic: str, direct: bool) -> None:
        """Binds the topic's due messages past the checkpoint, or to it.

        Raises:
            BrokerUnavailable
        """
        was_direct = topic in self._topics.direct
        self.know_direct(topic, direct)
        await self.ensure_topic(topic)
        if was_direct and not direct:
            # A binding in a lane of another bridge would go on leading past the checkpoint.
            await self.lanes.refresh(now=True)
        names = self._names if direct else self.lanes.existing
        checked, past = plan.topic(names, topic), plan.topic(names, topic, direct=True)
        binding = plan.Plan(bindings=tuple(bound for bound in past.bindings if bound not in checked.bindings))
        await (self._declarer.apply(binding) if direct else self._declarer.remove(binding))

    async def remove_topic(self, topic: str) -> None:
        """Deletes a topic's queues, with their messages.

        Raises:
            BrokerUnavailable
        """
        await self.ensure_wheel()
        self._topics.declared.discard(topic)
        self._topics.direct.discard(topic)
        self._young.forget(topic)
        await self._declarer.remove(self._topics.plan(topic, direct=True))

    async def _declare_wheel(self, *, binds: bool) -> None:
        """Declares the wheel. Without `binds` it leaves the bindings of an existing wheel to the watch and to publishes
        that miss one: they are half of the declares."""
        generation = self._generations
        whole = plan.core(self._names) + plan.slots(self._names)
        # Queues are declared in the plan's order: if the last one exists, all do.
        exists = await self._declarer.exists(whole.queues[-1].name)
        if not exists:
            self._young.declaring(WHEEL)
        try:
            wanted = whole if binds or not exists else replace(whole, bindings=(), former=())
            await self._declarer.apply(wanted, existed=exists)
        except NotAllowed:
            if not exists:
                raise
            # Another user has declared it, as an operator may want.
            log.info("topology.not_allowed", detail="declared by another user")
        if self._young.begun(WHEEL):
            self._young.declared(WHEEL)
        if binds or not exists:
            self._topics.declared.clear()
        await self.lanes.refresh(now=True)
        self._generation = generation
