"""Keeps the list of topics and their policies, and counts their messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from bridge.broker.declared.declared import Declared
from bridge.metrics.lateness import lateness_ms
from bridge.metrics.states import TopicState
from bridge.model.errors import BrokerUnavailable, NotFound, QueueMissing, TopicNotEmpty
from bridge.model.message import SHOWN_STATES, State
from bridge.model.values import Effective, Policy, TopicInfo
from bridge.service.topics.maker import Maker
from bridge.service.topics.policies import Policies
from bridge.service.topics.topic_state import DUE_EDGES_MS, as_shown, topic_state
from bridge.service.topics.unroutable import Unroutable
from bridge.store import pages
from bridge.store.calls import Call
from bridge.store.client import Store
from bridge.store.kept.subscriptions import StoredSubscriptions
from bridge.store.kept.topic_list import TopicList
from bridge.store.messages.outcomes import Outcome
from bridge.store.messages.records import Records
from bridge.store.messages.verdicts import DeleteVerdict, DropVerdict
from bridge.store.pages import Counts

_MINUTE_MS = 60_000
_EDGES_MS = {
    "1m": _MINUTE_MS,
    "10m": 10 * _MINUTE_MS,
    "30m": 30 * _MINUTE_MS,
    "1h": 60 * _MINUTE_MS,
    "6h": 360 * _MINUTE_MS,
    "1d": 1_440 * _MINUTE_MS,
    "7d": 7 * 1_440 * _MINUTE_MS,
    "30d": 30 * 1_440 * _MINUTE_MS,
}
_REMOVE_PAGE = 500
_WITH_MESSAGES = (State.WAITING, State.READY, State.LEASED, State.DEAD)
_COUNTED_AT_ONCE = 100


class Topics:
    """Lists, counts, changes and removes the topics of one pool."""

    def __init__(
        self, store: Store, records: Records, declared: Declared, policies: Policies, unroutable: Unroutable
    ) -> None:
        self._store = store
        self._records = records
        self._keys = records.keys
        self._declared = declared
        self._policies = policies
        self._unroutable = unroutable
        self._list = TopicList(store, records.keys)
        self._subscriptions = StoredSubscriptions(store, records.keys)

    def over(self, store: Store) -> Topics:
        """Returns an object for these topics that uses the connections of another store. Both objects share the
        remembered policies."""
        return Topics(store, self._records, self._declared, self._policies.over(store), self._unroutable)

    async def policy(self, topic: str) -> Effective:
        """Returns the topic's policy, or the defaults if it has none. While Redis is away, returns the policy that was
        read last.

        Raises:
            StoreUnavailable: this process has not read the policy before, or has forgotten it.
        """
        return await self._policies.seen(topic)

    async def used(self, topic: str, maker: Maker | None = None) -> Effective:
        """Returns the policy of a topic that gets or delivers a message. Declares the topic's ready queue, and puts the
        topic on the list.

        `maker`: a client with a limited number of topics; None: no limit.

        Raises:
            BridgeError: `maker` may make no more topics.
            Unavailable: RabbitMQ did not declare the queue, or Redis did not answer.
        """
        return await self._policies.used(topic, maker)

    async def admit(self, topic: str, maker: Maker | None) -> None:
        """Makes the topic for a client with a limited number of topics, before the caller writes anything else.
        `maker`: this client; None: does nothing.

        Raises:
            BridgeError: `maker` may make no more topics.
            Unavailable: RabbitMQ did not declare the queue, or Redis did not answer.
        """
        if maker is not None:
            await self._policies.used(topic, maker)

    async def put_policy(self, topic: str, policy: Policy, maker: Maker | None = None) -> Policy:
        """Sets the topic's policy, and returns it. Other processes follow within two seconds. `maker`: a client with a
        limited number of topics; None: no limit.

        Raises:
            BridgeError: `maker` may make no more topics.
            Unavailable: RabbitMQ or Redis is away.
        """
        await self._policies.put(topic, policy, maker)
        return policy

    async def change_policy(self, topic: str, change: Callable[[Policy], Policy]) -> Policy:
        """Calls `change` with the topic's policy, stores the policy that it returns, and returns this policy. `change`
        runs again if another call has changed the policy meanwhile.

        Raises:
            NotFound: there is no such topic.
            Unavailable: RabbitMQ or Redis is away.
        """
        await self.known(topic)
        return await self._policies.change(topic, change)

    async def names(self) -> list[str]:
        """Returns the names of all topics, sorted. If a topic was used again just after its removal, puts it back on
        the list.

        Raises:
            StoreUnavailable: Redis did not answer.
        """
        listed = await self._list.read()
        if not listed.marked:
            return listed.names
        await self._store.learn_clock()
        looked_ms = self._store.clock.now_ms()
        relisted = await self._relist(sorted({*listed.marked} - {*listed.names}))
        await self._list.forget_removed(looked_ms)
        return sorted({*listed.names, *relisted})

    async def known(self, topic: str) -> None:
        """Checks that the topic is on the list. Puts the topic on the list if it has messages.

        Raises:
            NotFound: the topic is not on the list, and has no messages.
            StoreUnavailable: Redis did not answer.
        """
        if not await self._list.listed([topic]) and not await self._relist([topic]):
            raise _no_topic(topic)

    async def read_policies(self) -> list[str]:
        """Reads the policies of all topics, and tells `Declared` which topics have direct release. Returns the topics,
        sorted.

        Raises:
            StoreUnavailable: Redis did not answer.
        """
        topics = await self.names()
        await self._policies.seen_all(topics)
        return topics

    async def infos(self) -> list[TopicInfo]:
        """Returns all topics with their counts.

        Raises:
            StoreUnavailable: Redis did not answer.
        """
        return await self.infos_of(await self.names())

    async def infos_of(self, topics: Sequence[str]) -> list[TopicInfo]:
        """Returns these topics with their counts.

        Raises:
            StoreUnavailable: Redis did not answer.
        """
        if not topics:
            return []
        edges_ms = tuple(_EDGES_MS.values())
        counted = await pages.counts(self._store, self._records, topics, edges_ms=edges_ms)
        policies = await self._policies.seen_all(topics)
        return [self._info(*of_topic) for of_topic in zip(topics, counted, policies, strict=True)]

    async def states(self) -> dict[str, TopicState]:
        """Returns the state of each topic, for metrics: how many messages it has, by state and by due moment.

        Raises:
            StoreUnavailable: Redis did not answer.
        """
        return {topic: topic_state(counted) for topic, (counted, _) in (await self.counted(DUE_EDGES_MS)).items()}

    async def counted(self, edges_ms: tuple[int, ...]) -> dict[str, tuple[Counts, Effective]]:
        """Returns the counts, as operators see them, and the policy of each topic. `edges_ms`: the edges of
        `Counts.by_due`, as ascending distances from now in ms.

        Raises:
            StoreUnavailable: Redis did not answer.
        """
        topics = await self.names()
        policies = await self._policies.seen_all(topics)
        counts: list[Counts] = []
        for start in range(0, len(topics), _COUNTED_AT_ONCE):
            # Counts topics in portions, so that other tasks get their turns.
            some = topics[start : start + _COUNTED_AT_ONCE]
            counts += await pages.counts(self._store, self._records, some, edges_ms=edges_ms)
        return {
            topic: (as_shown(counted, policy), policy)
            for topic, counted, policy in zip(topics, counts, policies, strict=True)
        }

    async def info(self, topic: str) -> TopicInfo:
        """Returns one topic with its counts.

        Raises:
            NotFound: there is no such topic.
            StoreUnavailable: Redis did not answer.
        """
        await self.known(topic)
        (info,) = await self.infos_of([topic])
        return info

    async def empty_ready(self, topic: str) -> int:
        """Deletes a topic's ready messages, and returns how many it deleted. Waiting and leased messages stay.

        Raises:
            StoreUnavailable: some messages may be deleted.
        """
        return await self._end(topic, [State.READY], self._deleting)

    async def remove(self, topic: str, *, force: bool) -> int:
        """Removes a topic and its queues. `force`: also removes a topic that has messages. Returns how many messages it
        deleted. Messages without a record are not counted.

        The records of the messages become tombstones, so the checkpoint drops their copies in the wheel.

        Raises:
            NotFound: there is no such topic.
            Unavailable: RabbitMQ or Redis is away; the topic may be removed in part.
            TopicNotEmpty: the topic's records or queues have messages, and `force` is not set.
        """
        if not await self._list.listed([topic]) and not await self._relist([topic]):
            # An earlier removal that failed may have taken the topic off the list, but not deleted its queues.
            self._declared.forget_topics([topic])
            if not await self._declared.finds_topic(topic):
                raise _no_topic(topic)
        (info,) = await self.infos_of([topic])
        # Redis may not know messages of the queues: it has lost their records, or an AMQP client published them.
        if not force and (left := _left(info.counts, await self._depths(topic))):
            raise TopicNotEmpty(f"the topic {topic!r} still has messages: {left}; add force=true to delete them")
        await self._subscriptions.remove(topic)
        states = [State.WAITING, State.READY, State.LEASED]
        deleted = await self._end(topic, states, self._deleting)
        deleted += await self._end(topic, [State.DEAD], self._dropping)
        await self._unroutable.remove(topic)
        # The records of ended messages expire, but their index entries would stay for ever: only counts remove those,
        # and a topic off the list is not counted.
        async for ids in self._listed(topic, [State.ACKED, State.EXPIRED, State.DELETED]):
            await self._unlist(topic, ids)
        # No search reads the topic any more, so the labels of its messages can be deleted at once.
        await self._store.commands([("UNLINK", key) for key in self._keys.label_indexes(topic)])
        await self._policies.remove(topic)
        # Taken off the list before the queues are deleted: a poll that loses its queue reads the list, and would
        # declare the queues again.
        await self._list.remove(topic)
        try:
            await self._declared.remove_topic(topic)
        except BrokerUnavailable:
            await self._policies.put_on_list(topic)  # so that it can be removed again
            raise
        self._policies.forget(topic)
        return deleted

    async def _relist(self, topics: Sequence[str]) -> list[str]:
        """Puts those of the topics on the list that have live messages or dead letters, and returns them. Another
        process may have sent these after a removal, as it took the topic for listed."""
        counted = await pages.counts(self._store, self._records, topics, edges_ms=())
        used = [topic for topic, counts in zip(topics, counted, strict=True) if _has_messages(counts)]
        for topic in used:
            await self._policies.put_on_list(topic)
        return used

    async def _depths(self, topic: str) -> dict[str, int]:
        """Counts the messages in the topic's ready and dead-letter queues, by queue. Does not count messages that
        consumers hold unacknowledged. Leaves out missing queues."""
        depths = {}
        for queue in (self._declared.ready_queue(topic), self._declared.dead_queue(topic)):
            with suppress(QueueMissing):
                depths[queue] = await self._declared.depth(queue)
        return depths

    def _deleting(self, topic: str, message_id: str) -> Call[Outcome[DeleteVerdict]]:
        return self._records.delete(topic, message_id, release=True, even_releasing=True)

    def _dropping(self, topic: str, message_id: str) -> Call[Outcome[DropVerdict]]:
        return self._records.drop(topic, message_id, epoch=None)

    async def _end(
        self, topic: str, states: Iterable[State], end: Callable[[str, str], Call[Outcome[DeleteVerdict | DropVerdict]]]
    ) -> int:
        ended = 0
        async for ids in self._listed(topic, states):
            outcomes = await self._store.run([end(topic, message_id) for message_id in ids])
            # Index entries of expired records remain. Without removal this loop would never end.
            pairs = zip(ids, outcomes, strict=True)
            gone = [message_id for message_id, outcome in pairs if outcome.record is None]
            if gone:
                await self._unlist(topic, gone)
            ended += len(ids) - len(gone)
        return ended

    async def _listed(self, topic: str, states: Iterable[State]) -> AsyncIterator[list[str]]:
        """Yields pages of ids of messages with one of the states. Each page is read from the beginning of the index. So
        the caller must take the messages of a page out of the index before it asks for the next page. The iterator ends
        when no message has one of the states."""
        digits = "".join(str(int(state)) for state in states)
        while entries := await pages.page(
            self._store,
            self._records,
            topic,
            states=digits,
            due_from_ms=0,
            due_to_ms=2**53,
            cursor=None,
            limit=_REMOVE_PAGE,
        ):
            yield [message_id for _, message_id in entries]

    async def _unlist(self, topic: str, ids: Iterable[str]) -> None:
        """Removes messages from their indexes."""
        by_bucket: dict[int, list[str]] = {}
        for message_id in ids:
            by_bucket.setdefault(self._keys.bucket(message_id), []).append(message_id)
        await self._store.commands(
            [("ZREM", key, *some) for bucket, some in by_bucket.items() for key in self._keys.indexes(topic, bucket)]
        )

    def _info(self, topic: str, counted: Counts, policy: Effective) -> TopicInfo:
        counted = as_shown(counted, policy)
        overdue, *by_due = counted.by_due
        return TopicInfo(
            topic=topic,
            counts={state.label: count for state, count in zip(SHOWN_STATES, counted.by_state, strict=True)},
            overdue=overdue,
            waiting_by_due=dict(zip((*_EDGES_MS, "beyond"), by_due, strict=True)),
            lateness_ms=lateness_ms(topic),
            policy=policy,
            ready_queue=self._declared.ready_queue(topic),
            dead_queue=self._declared.dead_queue(topic),
        )


def _has_messages(counts: Counts) -> bool:
    by_state = zip(SHOWN_STATES, counts.by_state, strict=True)
    return any(count for state, count in by_state if state in _WITH_MESSAGES)


def _left(counts: Mapping[str, int], depths: Mapping[str, int]) -> str:
    """Returns a text with the numbers of messages that prevent a topic's removal, by state and by queue. Empty: there
    are none."""
    by_state = [f"{counts[state]} {state}" for state in ("waiting", "ready", "leased", "dead") if counts[state]]
    return ", ".join(by_state + [f"{depth} in the queue {queue}" for queue, depth in depths.items() if depth])


def _no_topic(topic: str) -> NotFound:
    return NotFound(f"there is no topic {topic!r}")
