"""Keeps subscriptions, each with the receiver of a topic's messages and the results of the callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Any, Final

import orjson

from bridge.model.errors import NotFound
from bridge.model.values import Backoff
from bridge.service.topics.maker import Maker
from bridge.service.topics.topics import Topics
from bridge.store.client import Store
from bridge.store.kept.subscriptions import StoredSubscriptions
from bridge.store.messages.records import Records

DEFAULT_CONCURRENCY: Final = 10
DEFAULT_TIMEOUT_MS: Final = 10_000
DEFAULT_BACKOFF: Final = Backoff(steps_ms=(5_000, 30_000, 300_000, 1_800_000, 7_200_000))


@dataclass(frozen=True, kw_only=True, slots=True)
class Subscription:
    """The receiver of a topic's due messages, and how it is called.

    `id`: identifies this subscription; a subscription that replaces it gets a new id. `url` None: each message names
    its receiver. `secrets`: each secret makes one signature of a callback. `backoff`: the delays before further
    attempts. `ended_ms`: when the receiver answered 410, in Unix ms; 0: it has not.
    """

    id: str = field(default_factory=lambda: token_hex(8))
    topic: str
    url: str | None
    secrets: tuple[str, ...] = field(default=(), repr=False)
    concurrency: int = DEFAULT_CONCURRENCY  # calls in flight, in each process
    timeout_ms: int = DEFAULT_TIMEOUT_MS  # of one call, from the DNS look-up to the headers of the answer
    backoff: Backoff = DEFAULT_BACKOFF
    created_ms: int = 0
    ended_ms: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """The latest failed attempt of a callback. `at_ms`: when, in Unix ms. `id`: the message's. `reason`: a word of
    `Reason` (`loops/callbacks/decisions.py`). `says`: the details."""

    at_ms: int
    id: str  # the message's
    reason: str
    says: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SubscriptionState:
    """A subscription with its state and the counts of all processes since it was created."""

    subscription: Subscription
    held_ms: int  # for how long calls to its receiver still pause; 0: no pause
    delivered: int
    failed: int
    last_delivered_ms: int  # 0: never
    last_failure: Failure | None


class Subscriptions:
    """Reads and changes the subscriptions of one pool. Every method raises StoreUnavailable if Redis does not
    answer."""

    def __init__(self, store: Store, records: Records, topics: Topics) -> None:
        self._clock = store.clock
        self._stored = StoredSubscriptions(store, records.keys)
        self._topics = topics

    async def put(self, subscription: Subscription, maker: Maker | None = None) -> SubscriptionState:
        """Creates or replaces the topic's subscription, and returns it with its state. All processes use the new
        subscription within two seconds. No process begins another call for the replaced subscription. `maker`: a client
        with a limited number of topics; None: no limit.

        Raises:
            BridgeError: `maker` may make no more topics.
            Unavailable: RabbitMQ did not declare the topic's queue, or Redis did not answer.
        """
        topic = subscription.topic
        await self._topics.used(topic, maker)
        await self._stored.put(topic, orjson.dumps(replace(subscription, created_ms=int(self._clock.now_ms()))))
        return await self.get(topic)

    async def add(self, subscription: Subscription) -> None:
        """Creates the subscription unless the topic has one."""
        created = replace(subscription, created_ms=int(self._clock.now_ms()))
        await self._stored.add(created.topic, orjson.dumps(created))

    async def get(self, topic: str) -> SubscriptionState:
        """Returns the topic's subscription with its state.

        Raises:
            NotFound: the topic has no subscription.
        """
        subscription = await self._stored_one(topic)
        subscription = replace(subscription, ended_ms=await self._stored.ended_ms(subscription.id))
        tally = await self._stored.tally(topic, subscription.id)
        return SubscriptionState(
            subscription=subscription,
            held_ms=await self._stored.held_ms(topic, subscription.id),
            delivered=int(tally.get("delivered", 0)),
            failed=int(tally.get("failed", 0)),
            last_delivered_ms=int(tally.get("last_delivered_ms", 0)),
            last_failure=Failure(**orjson.loads(tally["last_failure"])) if "last_failure" in tally else None,
        )

    async def remove(self, topic: str) -> None:
        """Removes the topic's subscription. Calls in flight finish; no process begins another call.

        Raises:
            NotFound: the topic has no subscription.
        """
        if not await self._stored.remove(topic):
            raise _none(topic)

    async def is_current(self, subscription: Subscription) -> bool:
        """Returns whether the topic still has this subscription: it is not removed, replaced or ended."""
        return await self._stored.is_current(subscription.topic, subscription.id)

    async def version(self) -> bytes | None:
        """Returns a value that changes whenever the result of `all` changes; None: there never was a subscription."""
        return await self._stored.version()

    async def all(self) -> Sequence[Subscription]:
        """Returns the subscriptions of all topics."""
        stored, ended = await self._stored.all()
        subscriptions = [_read(written) for written in stored.values()]
        return [replace(each, ended_ms=ended.get(each.id, 0)) for each in subscriptions]

    async def topics(self) -> list[str]:
        """Returns the topics that have a subscription."""
        stored, _ = await self._stored.all()
        return list(stored)

    async def end(self, subscription: Subscription) -> None:
        """Marks the subscription as ended: its receiver answered 410."""
        await self._stored.end(subscription.id, int(self._clock.now_ms()))

    async def hold(self, topic: str, receiver: str, for_ms: int) -> None:
        """Makes all processes call a receiver no more for `for_ms` milliseconds. `receiver`: the subscription's id; if
        each message names its receiver, a digest of the receiver's origin."""
        await self._stored.hold(topic, receiver, for_ms)

    async def held_ms(self, topic: str, receiver: str) -> int:
        """Returns for how many ms no process may call the receiver yet (see `hold`); 0: it may be called. `receiver`:
        the subscription's id; if each message names its receiver, a digest of the receiver's origin."""
        return await self._stored.held_ms(topic, receiver)

    async def delivered(self, subscription: Subscription) -> None:
        """Counts a call that the receiver accepted."""
        now_ms = int(self._clock.now_ms())
        await self._stored.tell(subscription.topic, subscription.id, "delivered", last_delivered_ms=now_ms)

    async def failed(self, subscription: Subscription, message_id: str, reason: str, says: str) -> None:
        """Counts a failed attempt of a callback, and keeps it as the latest failure. `reason`: a word of `Reason`
        (`loops/callbacks/decisions.py`). `says`: the details."""
        failure = Failure(at_ms=int(self._clock.now_ms()), id=message_id, reason=reason, says=says)
        await self._stored.tell(subscription.topic, subscription.id, "failed", last_failure=orjson.dumps(failure))

    async def _stored_one(self, topic: str) -> Subscription:
        stored = await self._stored.get(topic)
        if stored is None:
            raise _none(topic)
        return _read(stored)


def _none(topic: str) -> NotFound:
    return NotFound(f"the topic {topic!r} has no subscription")


def _read(stored: bytes) -> Subscription:
    fields: dict[str, Any] = orjson.loads(stored)
    backoff = fields["backoff"]
    fields["backoff"] = Backoff(**{**backoff, "steps_ms": tuple(backoff["steps_ms"])})
    return Subscription(**{**fields, "secrets": tuple(fields["secrets"])})
