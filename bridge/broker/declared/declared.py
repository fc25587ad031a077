"""Declares the queues of topics when they are first needed, and remembers which queues it has declared.

A topic's ready queue is declared when the topic is first used. Its dead queue is declared when a message may soon
become a dead letter, or at the latest when the first dead letter comes. Most topics have no dead letters, and an idle
quorum queue costs RabbitMQ memory and CPU time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from math import inf
from time import monotonic
from typing import Final

from bridge.broker.client.connection import BrokerConnection
from bridge.broker.declared.declare import Declarer, DeclareRefused, NotAllowed
from bridge.broker.declared.mending import Mended, mend_each
from bridge.broker.declared.topic_queues import MOST_TOPICS, Existing, TopicQueues, everything
from bridge.broker.declared.wheel import Wheel
from bridge.broker.declared.young_queues import WHEEL, YoungQueues
from bridge.model import background
from bridge.model.recent import Recent
from topology import plan
from topology.names import Names
from topology.wheel import HANDS
from topology.wheel import slots as wheel_slots

_EXPECT_AGAIN_AFTER_S: Final = 30.0


class Declared:
    """Declares objects before the bridge publishes to them: the wheel once for each connection, and the queues of each
    topic once. Here the wheel is every object but the queues of topics.

    If the broker has lost the wheel, all objects are declared again. While the wheel exists, the bridge assumes that
    the queues of topics exist. After a publish that finds no queue, `CopyPublisher` has the topic's queues declared
    again.
    """

    def __init__(
        self,
        connection: BrokerConnection,
        names: Names,
        *,
        delivery_limit: int,
        publishers: Collection[BrokerConnection],
        listed: Existing,
    ) -> None:
        """`connection`: the connection for declares. `publishers`: further connections over which the bridge publishes.
        If one of them is opened again, the wheel is declared again: RabbitMQ may have closed the connection because
        somebody deleted an object.

        `listed`: a function that returns which of the given topics are on the list of topics. Only these get a dead
        queue, because a dead letter may come while its topic is removed.
        """
        self._names = names
        self._declarer = Declarer(connection, lanes=names.lanes)
        self._one_at_a_time = asyncio.Lock()
        self._looking = asyncio.Lock()  # one channel at a time: anybody may ask about any number of topics
        self._young = YoungQueues()
        self._direct: set[str] = set()  # topics on direct release
        self._expecting: dict[str, asyncio.Task[None]] = {}  # declares of dead queues before the first dead letters
        self._unexpected = Recent[str, float](MOST_TOPICS)  # after a failed declare: until when it is not repeated
        self._delivery_limit = delivery_limit
        self._ready, self._dead = (
            TopicQueues(
                self._declarer, self._young, self._one_at_a_time, planned=planned, group=group, existing=existing
            )
            for planned, group, existing in ((self._plan, str, everything), (self._dead_plan, _dead_group, listed))
        )
        self.wheel = Wheel(
            connection,
            publishers,
            names,
            declarer=self._declarer,
            young=self._young,
            turn=self._one_at_a_time,
            lost=self._forget_all,
        )

    @property
    def acks_queue(self) -> str:
        """The queue for the acks that AMQP consumers publish and a bridge records."""
        return self._names.acks

    def checkpoint_queue(self, lane: int) -> str:
        """Returns the queue of a lane's checkpoint."""
        return self._names.in_lane(lane).checkpoint

    def first_slot(self, message_id: str, stay_ms: int) -> str | None:
        """Returns the slot in which a copy begins to wait. `stay_ms`: how many ms the copy stays in the wheel. If that
        is 0, returns None."""
        slots = wheel_slots(stay_ms)
        return self._names.lane_for(message_id).slot(*slots[0]) if slots else None

    def ready_queue(self, topic: str) -> str:
        """Returns the queue from which the topic's due messages are consumed."""
        return self._names.ready_queue(topic)

    def dead_queue(self, topic: str) -> str:
        """Returns the queue of the topic's dead letters."""
        return self._names.dead_queue(topic)

    def may_be_target(self, exchange: str) -> bool:
        """Whether an exchange may be the target of messages: it is neither the default exchange nor the bridge's."""
        return exchange != "" and not self._names.owns_exchange(exchange)

    @property
    def unroutable_queue(self) -> str:
        """The queue of dead letters whose target did not take them; all topics share it."""
        return self._names.unroutable

    @property
    def ingress_queue(self) -> str:
        """The queue of messages whose delay is in a header."""
        return self._names.ingress

    async def ensure_topic(self, topic: str) -> None:
        """Declares a topic's ready queue, unless this process has declared it.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        """
        await self.wheel.ensure()
        await self._ready.declare(topic)

    def expect_dead_letter(self, topic: str) -> None:
        """Declares a topic's dead queue in the background, unless this process has declared it.

        Call this when a message of the topic may soon be a dead letter. The queue may then be old enough when the dead
        letter comes, so that its confirm counts at once (`young_queues.py`).
        """
        if self.has_dead(topic) or topic in self._expecting or monotonic() < (self._unexpected.get(topic) or 0.0):
            return
        self._expecting[topic] = background.begin(self._expect_dead_letter(topic), "declare a dead queue")

    async def _expect_dead_letter(self, topic: str) -> None:
        try:
            await self.ensure_dead(topic)
        except Exception:  # if a server is away, the publish of the dead letter reports it
            self._unexpected.note(topic, monotonic() + _EXPECT_AGAIN_AFTER_S)
            raise
        finally:
            del self._expecting[topic]

    async def ensure_dead(self, topic: str) -> None:
        """Declares a topic's dead queue, unless this process has declared it.

        Raises:
            NotPublished: the topic was removed.
            Unavailable: RabbitMQ or Redis is away.
        """
        await self.wheel.ensure()
        await self._dead.declare(topic)

    def has_topic(self, topic: str) -> bool:
        """Whether this process has declared the topic's ready queue. False while the wheel is not declared, as after
        the loss of a connection."""
        return self.wheel.is_declared and topic in self._ready.declared

    def has_dead(self, topic: str) -> bool:
        """Whether this process has declared the topic's dead queue. False while the wheel is not declared, as after the
        loss of a connection."""
        return self.wheel.is_declared and topic in self._dead.declared

    async def without_dead(self, topics: Sequence[str]) -> list[str]:
        """Returns the topics whose dead queue is missing. Declares nothing.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        """
        queues = {topic: self._dead_plan(topic).queues for topic in topics}
        async with self._looking:
            missing = await self._declarer.missing(plan.Plan(queues=tuple(chain.from_iterable(queues.values()))))
        return [topic for topic in topics if not set(queues[topic]).isdisjoint(missing.queues)]

    async def finds_topic(self, topic: str) -> bool:
        """Whether the topic has a ready queue on the broker. Declares nothing.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        """
        async with self._looking:
            return self.has_topic(topic) or await self._declarer.exists(self._names.ready_queue(topic))

    def forget_topics(self, topics: Iterable[str]) -> None:
        """Forgets that the queues of these topics were declared, so that their next use declares them again. Call this
        when a queue was gone."""
        for queues in (self._ready, self._dead):
            queues.declared.difference_update(topics)

    def _forget_all(self) -> None:
        for queues in (self._ready, self._dead):
            queues.declared.clear()

    def unsettled(self, topic: str) -> bool:
        """Whether a confirm by the topic's ready queue does not count yet, because the queue is too new."""
        return self._young.unsettled(topic)

    def dead_settles_in_s(self, topic: str) -> float:
        """Returns the seconds until a confirm by the topic's declared dead queue counts. 0: such a confirm counts
        already."""
        return self._young.settles_in_s(_dead_group(topic))

    def note_existing(self, topics: Iterable[str]) -> None:
        """Remembers that the ready queues of these topics exist now. So the age of these queues counts from this call,
        and not from their first use by this process."""
        for topic in topics:
            self._young.exists(topic)

    async def settled(
        self, topics: Collection[str], *, old: Iterable[str], dead: Iterable[str] = (), since_s: float = inf
    ) -> bool:
        """Waits until confirmed messages survive a kill of the broker: in the wheel, in the ready queues of `topics`,
        and in the dead queues of the topics in `dead`. Returns whether one of these queues was new at `since_s`, as
        `YoungQueues.settled` does.

        `old`: topics whose ready queues are known to have existed for seconds, so their confirms count already.
        """
        for topic in old:
            self._young.old(topic)
        return await self._young.settled((WHEEL, *topics, *map(_dead_group, dead)), since_s)

    async def depth(self, queue: str) -> int:
        """Returns how many messages are ready in the queue. Messages that consumers hold do not count.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
            QueueMissing: the queue does not exist.
        """
        return await self._declarer.depth(queue)

    async def checkpoint_depth(self) -> int:
        """Returns how many messages are ready in the checkpoint queues of all lanes. Messages that bridges hold do not
        count.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
            QueueMissing: the queue of a lane is gone.
        """
        await self.wheel.lanes.refresh()
        return sum([await self.depth(lane.checkpoint) for lane in self.wheel.lanes.existing.each_lane])

    async def slot_depths(self) -> dict[str, tuple[int, int]]:
        """Returns each slot's wait in ms and its number of messages, by the slot's name in the first lane. Adds up the
        lanes that the last `Lanes.refresh` found.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        """
        lanes = self.wheel.lanes.existing.each_lane
        async with self._looking:
            depths = await self._declarer.depths(plan.slots(self.wheel.lanes.existing).queues)
        waits = ((hand.name, value, hand.unit_ms * value) for hand in reversed(HANDS) for value in hand.values)
        return {
            lanes[0].slot(hand, value): (wait_ms, sum(depths.get(lane.slot(hand, value), 0) for lane in lanes))
            for hand, value, wait_ms in waits
        }

    def wanted(self, topics: Iterable[str]) -> plan.Plan:
        """Returns the plan of all objects that have to exist on the broker if these topics exist."""
        return plan.merged((plan.core(self._names), plan.slots(self._names), *map(self._plan, topics)))

    async def mend(self, wanted: plan.Plan, listed: Callable[[], Awaitable[Collection[str]]]) -> Mended:
        """Declares the missing objects of the plan, and binds all objects again. Returns what was declared and refused.
        If RabbitMQ refuses an object, the other objects are still declared.

        `listed`: reads the list of topics; it is called after the search for missing queues. Queues of topics that are
        not on the list stay missing: a removal takes its topic off the list before it deletes the queues.

        Raises:
            Unavailable: RabbitMQ or Redis is away.
        """
        missing = await self._declarer.missing(wanted)
        if missing.queues:
            wanted, gone = self.wanted(await listed()), set(missing.queues)
            missing = replace(missing, queues=tuple(queue for queue in wanted.queues if queue in gone))
        names = [exchange.name for exchange in missing.exchanges] + [queue.name for queue in missing.queues]
        unmet = replace(wanted, exchanges=missing.exchanges, queues=missing.queues, barring=())
        mended = Mended(names)
        try:
            await self._declarer.apply(unmet, existed=not names)
        except DeclareRefused as refusal:
            if names:
                mended = await mend_each(self._declarer, unmet)
            elif not isinstance(refusal, NotAllowed):
                raise
        if mended.declared:
            self._young.declared(WHEEL)
        return mended

    def know_direct(self, topic: str, direct: bool) -> None:
        """Remembers whether a topic has direct release, for the next declare of the topic's queues."""
        (self._direct.add if direct else self._direct.discard)(topic)

    async def set_direct(self, topic: str, direct: bool) -> None:
        """Declares the topic's ready queue, and changes its bindings. With `direct`, RabbitMQ routes due messages
        without a kind in their key past the checkpoint to the ready queue. Otherwise it routes them to the checkpoint.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        """
        was_direct = topic in self._direct
        self.know_direct(topic, direct)
        await self.ensure_topic(topic)
        if was_direct and not direct:
            # A binding in a lane that only another bridge has would still lead past the checkpoint.
            await self.wheel.lanes.refresh(now=True)
        names = self._names if direct else self.wheel.lanes.existing
        checked, past = plan.topic(names, topic), plan.topic(names, topic, direct=True)
        binding = plan.Plan(bindings=tuple(bound for bound in past.bindings if bound not in checked.bindings))
        await (self._declarer.apply(binding) if direct else self._declarer.remove(binding))

    async def remove_topic(self, topic: str) -> None:
        """Deletes a topic's queues and their messages. Before this call, the caller takes the topic off the list of
        topics.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        """
        await self.wheel.ensure()
        # Dead queues that were begun while the topic was on the list are declared once the lock is free. No dead queue
        # is declared while it is held.
        async with self._one_at_a_time:
            for queues in (self._ready, self._dead):
                queues.forget(topic)
            self._direct.discard(topic)
            await self._declarer.remove(plan.topic(self._names, topic, direct=True))

    def _plan(self, topic: str) -> plan.Plan:
        return plan.topic(self._names, topic, direct=topic in self._direct, delivery_limit=self._delivery_limit)

    def _dead_plan(self, topic: str) -> plan.Plan:
        return plan.Plan(queues=self._plan(topic).later)


def _dead_group(topic: str) -> str:
    """Returns the group name of a topic's dead queue in `YoungQueues`. No other topic's group has this name, because no
    topic has a space in its name."""
    return f"{topic} dead"
