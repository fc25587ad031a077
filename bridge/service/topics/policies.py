"""Reads and changes the policies of topics. Remembers each policy for two seconds, or longer while Redis is away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from bridge.broker.declared.declared import Declared
from bridge.model.errors import BrokerUnavailable, StoreUnavailable
from bridge.model.recent import Recent
from bridge.model.values import Defaults, Effective, Policy, Release
from bridge.service.topics.maker import Maker
from bridge.store.client import Store
from bridge.store.kept.made_topics import MadeTopics
from bridge.store.kept.policies import StoredPolicies, read_policy
from bridge.store.kept.topic_list import TopicList
from bridge.store.keys import Keys

# After this time at most, a process sees a policy that another process has changed.
_FRESH_S = 2.0
MOST_POLICIES = 20_000
"""The most policies that a process remembers. There is a limit because a read may name any topic, even one that does
not exist."""
_PAGE = 1_000

_Read = tuple[Effective, float]
"""A policy, and the moment of `monotonic()` at which it was read."""
_Known = Recent[str, _Read]


class Policies:
    """Reads, remembers and changes the policies of one pool's topics."""

    def __init__(self, store: Store, keys: Keys, declared: Declared, defaults: Defaults) -> None:
        self._store = store
        self._keys = keys
        self._declared = declared
        self._defaults = defaults
        self._stored = StoredPolicies(store, keys)
        self._made = MadeTopics(store, keys)
        self._list = TopicList(store, keys)
        self._seen = _Known(MOST_POLICIES)  # policies of all topics that were asked for
        self._used = _Known(MOST_POLICIES)  # policies of topics that were also put on the list

    def over(self, store: Store) -> Policies:
        """Returns an object for these policies that uses the connections of another store. Both objects share the
        remembered policies."""
        policies = Policies(store, self._keys, self._declared, self._defaults)
        policies._seen, policies._used = self._seen, self._used
        return policies

    async def seen(self, topic: str) -> Effective:
        """Returns the topic's policy, or the defaults if it has none. While Redis is away, returns the policy that was
        read last.

        Raises:
            StoreUnavailable: this process has not read the policy before, or has forgotten it.
        """
        return await self._policy(topic, self._seen)

    async def used(self, topic: str, maker: Maker | None = None) -> Effective:
        """Returns the policy of a topic that gets or delivers a message. Declares the topic's ready queue, and puts the
        topic on the list; puts it there again after Redis was emptied.

        `maker`: a client with a limited number of topics. A new topic is counted against this limit before anything is
        made. None: no limit.

        Raises:
            BridgeError: `maker` may make no more topics.
            BrokerUnavailable: the topic is not on the list, and RabbitMQ did not declare its queue. Or the maker has
                reached its limit, and RabbitMQ did not say whether the topic is new.
            StoreUnavailable: this process has not read the policy before, or has forgotten it.
        """
        return await self._policy(topic, self._used, maker)

    async def seen_all(self, topics: Sequence[str]) -> list[Effective]:
        """Returns the policies of the topics, in order. Reads up to a thousand in one round trip.

        Raises:
            StoreUnavailable: Redis did not answer.
        """
        policies: dict[str, Effective] = {}
        stale: list[str] = []
        for topic in topics:
            if (last := self._seen.get(topic)) is not None and _is_fresh(last):
                policies[topic] = last[0]
            else:
                stale.append(topic)
        for start in range(0, len(stale), _PAGE):
            page = stale[start : start + _PAGE]
            for topic, stored in zip(page, await self._stored.get_many(page), strict=True):
                policies[topic] = self._read(topic, stored, self._seen)
        return [policies[topic] for topic in topics]

    async def put_on_list(self, topic: str, maker: Maker | None = None) -> bool:
        """Puts the topic on the list of topics in Redis, and returns True. Returns False if the list's Redis server is
        away and other servers answer. Then the topic's next use tries again.

        `maker`: the client that made the topic. The topic counts against the client's limit until the topic is removed
        from the list.

        Raises:
            StoreUnavailable: Redis did not answer.
        """
        commands: list[tuple[str | int, ...]] = [("SADD", self._keys.topics, topic)]
        if maker is not None:
            commands.append(("ZADD", self._keys.made_topics(maker.token_id), "XX", 0, topic))
        try:
            await self._store.commands(commands)
        except StoreUnavailable as error:
            if not error.partly:
                raise
            return False
        return True

    async def put(self, topic: str, policy: Policy, maker: Maker | None = None) -> None:
        """Sets the topic's policy. Other processes follow within two seconds. `maker`: a client with a limited number
        of topics; None: no limit.

        Raises:
            BridgeError: `maker` may make no more topics.
            Unavailable: RabbitMQ or Redis is away.
        """
        await self.used(topic, maker)
        await self._bind_checked(topic, policy)
        await self._stored.put(topic, policy)
        await self._follow(topic, policy)

    async def change(self, topic: str, change: Callable[[Policy], Policy]) -> Policy:
        """Calls `change` with the topic's policy, stores the policy that it returns, and returns this policy. Other
        processes follow within two seconds.

        `change` runs again if another call has changed the policy meanwhile.

        Raises:
            Unavailable: RabbitMQ or Redis is away.
        """
        while True:
            former = await self._stored.get(topic)
            policy = change(read_policy(former))
            await self._bind_checked(topic, policy)
            if await self._stored.replace(topic, former, policy):
                await self._follow(topic, policy)
                return policy

    async def remove(self, topic: str) -> None:
        """Removes the topic's policy.

        Raises:
            StoreUnavailable: Redis did not answer.
        """
        await self._stored.remove(topic)

    def forget(self, topic: str) -> None:
        """Forgets the policy of a topic that was removed."""
        self._used.forget(topic)
        self._seen.forget(topic)

    async def _policy(self, topic: str, known: _Known, maker: Maker | None = None) -> Effective:
        last = known.get(topic)
        if last is not None and _is_fresh(last):
            return last[0]
        try:
            if maker is not None:
                await self._count(topic, maker)
            if known is self._used and last is None:
                # Declared before it is listed: polls of other processes consume a listed topic at once, and RabbitMQ
                # closes a connection that consumes a queue without a leader. A topic on the list may be used while
                # RabbitMQ is away, and no poll consumes it then.
                try:
                    await self._declared.ensure_topic(topic)
                except BrokerUnavailable:
                    if not await self._list.listed([topic]):
                        raise
            if known is self._used and not await self.put_on_list(topic, maker):
                known = self._seen
            if (seen := self._seen.get(topic)) is not None and _is_fresh(seen):
                known.note(topic, seen)
                return seen[0]
            stored = await self._stored.get(topic)
        except StoreUnavailable:
            if last is None:
                raise
            return last[0]
        return self._read(topic, stored, known)

    async def _count(self, topic: str, maker: Maker) -> None:
        made = await self._made.count(maker.token_id, topic, maker.max_topics)
        if not made:
            return
        # Redis may have lost the list, so RabbitMQ is asked. It is not taken from memory: another process may have
        # removed a topic that this one declared.
        self._declared.forget_topics([topic])
        if not await self._declared.finds_topic(topic):
            maker.refuse(topic, made)

    def _read(self, topic: str, stored: bytes | None, known: _Known) -> Effective:
        policy = self._note(topic, read_policy(stored), known)
        self._declared.know_direct(topic, _is_direct(policy))
        return policy

    def _note(self, topic: str, own: Policy, known: _Known) -> Effective:
        policy = Effective.of(own, self._defaults)
        read = (policy, monotonic())
        self._seen.note(topic, read)
        if known is self._used:
            known.note(topic, read)
        return policy

    async def _bind_checked(self, topic: str, policy: Policy) -> None:
        # From direct to checked, the binding changes first: an unneeded check is harmless, a missed one is not.
        if not _is_direct(policy):
            await self._declared.set_direct(topic, False)

    async def _follow(self, topic: str, policy: Policy) -> None:
        """Binds the topic's queues by its new policy. Afterwards reads the policy again, and binds again if another
        call has changed it. So the last of several calls binds by the latest policy."""
        direct = None
        while direct != _is_direct(policy):
            direct = _is_direct(policy)
            await self._declared.set_direct(topic, direct)
            policy = read_policy(await self._stored.get(topic))
        self._note(topic, policy, self._used)


def _is_fresh(read: _Read) -> bool:
    return monotonic() - read[1] < _FRESH_S


def _is_direct(policy: Policy) -> bool:
    return policy.release is Release.DIRECT and not policy.paused
