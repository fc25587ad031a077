"""Publishes copies: into the wheel, to the ready queue or to the dead-letter queue of their topic.

Copies that may share a message and stay in the wheel for the same time travel as one bundle. A single one is a plain
message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from enum import Enum

from ulid import ULID

from bridge.broker.client.encode_properties import CopyProperties
from bridge.broker.client.publisher import Outgoing, Publisher
from bridge.broker.copies import bundles
from bridge.broker.copies.copies import as_refused
from bridge.broker.copies.properties import Message, Properties
from bridge.broker.declared.declared import Declared
from bridge.model.errors import BrokerUnavailable, NotPublished, Unavailable, Unpublishable, Unroutable
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import Copy, CopyKind
from topology.names import Names
from topology.wheel import MAX_DELAY_MS, ceil_to_tenth, floor_to_tenth, route

LEAD_MS = 100
"""How much short of due the wheel aims, so that the checkpoint can release at the exact moment."""

_OLD_AFTER_MS = 3_000  # twice what a new queue takes to settle; a copy's `created_ms` is in whole seconds

Existing = Callable[[Collection[str]], Awaitable[Collection[str]]]
"""Returns those of the topics whose queues may be declared. Raises Unavailable."""

_BundleKey = tuple[str, CopyKind, int]
"""Topic, kind and stay in the wheel (ms), which copies of one bundle have in common."""


class Route(Enum):
    """The place that a copy is published to."""

    WHEEL = "wheel"
    READY = "ready"
    DEAD = "dead"


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class Publication:
    """A copy and its route.

    `left_ms`: for the wheel, what is left of its delay.
    `exact`: the wheel aims short of due, and the checkpoint waits for the moment. So the copy needs a kind. Otherwise
    the delay is rounded up to a tenth of a second, and a usual delay is one hop.
    `kind`: written in the key, unless it is plain; such a copy goes to the checkpoint also in a direct topic.
    `live_for_ms`: for a ready queue, what is left of its time to live, 0 for no end.
    `reason`: for a dead-letter queue, why the copy is a dead letter.
    `shares`: for the wheel, the copy may travel in one bundle with others that are published with it.
    """

    copy: Copy
    route: Route
    left_ms: float = 0.0
    exact: bool = True
    kind: CopyKind = CopyKind.PLAIN
    live_for_ms: int = 0
    reason: str = ""
    shares: bool = False


def parked_ms(left_ms: float, *, exact: bool) -> int:
    """Returns how long the wheel keeps a copy whose delay ends in `left_ms`: in ms, a whole number of tenths of a
    second, and at most the longest delay: our estimate of Redis' clock is a little behind."""
    return min(floor_to_tenth(left_ms - LEAD_MS) if exact else ceil_to_tenth(left_ms), MAX_DELAY_MS)


class CopyPublisher:
    """Publishes copies, and first declares the queues that they need."""

    def __init__(
        self, declared: Declared, names: Names, publisher: Publisher, existing: Existing, *, bundles: bool
    ) -> None:
        """Without `bundles` every copy travels alone."""
        self._declared = declared
        self._names = names
        self._publisher = publisher
        self._existing = existing
        self._bundles = bundles

    async def publish(self, publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
        """Publishes all copies in one burst. Returns for each copy None once its confirm counts, or the error. A
        `NotPublished` means that no queue has the copy."""
        try:
            removed = await self._declare({publication.copy.topic for publication in publications})
        except Unavailable as error:
            return [NotPublished(str(error))] * len(publications)
        if not removed:
            return await self._publish(publications)
        topics = [publication.copy.topic for publication in publications]
        left = [publication for publication in publications if publication.copy.topic not in removed]
        return _with_removed(topics, removed, await self._publish(left))

    async def _publish(self, publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
        messages = list(_messages(self._names, publications, bundled=self._bundles))
        results = await self._publisher.publish([outgoing for _, outgoing in messages])
        missing = [at for at, error in enumerate(results) if isinstance(error, Unroutable)]
        if missing:
            # The copies of a bundle have the same topic and route, so this asks only about the first copy.
            firsts = [publications[messages[at][0][0]] for at in missing]
            second_results = await self._publish_again(firsts, [messages[at][1] for at in missing])
            for at, result in zip(missing, second_results, strict=True):
                results[at] = result
        released = [publication.copy for publication in publications if publication.route is not Route.WHEEL]
        old = {copy.topic for copy in released if _sent_long_before(copy)}
        await self._declared.settled({copy.topic for copy in released}, old=old)
        errors: list[BrokerUnavailable | None] = [None] * len(publications)
        for (indexes, _), result in zip(messages, results, strict=True):
            for at in indexes:
                errors[at] = result
        return errors

    async def refuse(self, message: Message | Copy, reason: str) -> None:
        """Puts a message aside, with the reason, for an operator to see.

        `message`: a delivery that can't be read, or a copy out of a bundle that can't be published.

        Raises:
            BrokerUnavailable
        """
        await self._declared.ensure_wheel()
        properties: Properties | CopyProperties
        if isinstance(message, Copy):
            properties, body = CopyProperties(message, reason=reason), message.envelope.body or b""
        else:
            properties, body = as_refused(message.properties, reason), message.body
        try:
            await self._put_aside(properties, body)
        except Unroutable:
            await self._declared.renew_wheel()
            await self._put_aside(properties, body)
        except Unpublishable:
            bare = Properties(message_id=str(ULID()), delivery_mode=2, headers={"x-delay-reason": reason})
            await self._put_aside(bare, body)

    async def _put_aside(self, properties: Properties | CopyProperties, body: bytes) -> None:
        await self._publisher.publish_one(Outgoing("", self._names.refused, properties, body))

    async def _publish_again(
        self, publications: list[Publication], outgoing: list[Outgoing]
    ) -> list[BrokerUnavailable | None]:
        """Declares again what somebody has deleted, and publishes a second time."""
        try:
            if any(publication.route is not Route.DEAD for publication in publications):
                # An exchange of the wheel may have lost its bindings.
                await self._declared.renew_wheel()
            topics = [publication.copy.topic for publication in publications]
            self._declared.forget_topics(topics)
            removed = await self._declare(set(topics))
        except Unavailable as error:
            return [NotPublished(str(error))] * len(outgoing)
        left = [one for topic, one in zip(topics, outgoing, strict=True) if topic not in removed]
        return _with_removed(topics, removed, await self._publisher.publish(left))

    async def _declare(self, topics: set[str]) -> set[str]:
        """Declares the queues of the topics, but not of those that were removed, which it returns."""
        undeclared = {topic for topic in topics if not self._declared.has_topic(topic)}
        if not undeclared:
            await self._declared.ensure_wheel()
            return set()
        removed = undeclared.difference(await self._existing(undeclared))
        await asyncio.gather(*map(self._declared.ensure_topic, undeclared - removed))
        return removed


def _with_removed(
    topics: Sequence[str], removed: Collection[str], results: Sequence[BrokerUnavailable | None]
) -> list[BrokerUnavailable | None]:
    """Returns a result for each topic: an error for a removed one, and for the others, in order, the given results."""
    others = iter(results)
    return [NotPublished(f"there is no topic {topic!r}") if topic in removed else next(others) for topic in topics]


def _sent_long_before(copy: Copy) -> bool:
    """Returns whether a bridge sent the message seconds before it was due, and declared its topic's queues then."""
    # Nobody declares queues when an AMQP client sends its own message, which has no epoch.
    return copy.epoch > 0 and copy.due_ms - copy.created_ms >= _OLD_AFTER_MS


def _messages(
    names: Names, publications: Sequence[Publication], *, bundled: bool
) -> Iterator[tuple[tuple[int, ...], Outgoing]]:
    """Yields the messages to publish, each with the indexes of the publications that it carries."""
    stays_ms = [
        parked_ms(publication.left_ms, exact=publication.exact) if publication.route is Route.WHEEL else 0
        for publication in publications
    ]
    alone = dict.fromkeys(range(len(publications)))
    groups = _groups(publications, stays_ms) if bundled and len(publications) > 1 else {}
    for (topic, kind, stay_ms), group in groups.items():
        for bundle in bundles.pack([publications[at].copy for at in group]):
            # The bundle's own id chooses the lane. If its copies' ids chose it, there would be smaller bundles, one for
            # each lane.
            lane = names.lane_for(bundle.properties.message_id or "")
            way = route(lane, stay_ms, topic, bundles.kind_of_bundle(kind))
            indexes = tuple(group[index] for index in bundle.indexes)
            for at in indexes:
                del alone[at]
            yield indexes, Outgoing(way.exchange, way.routing_key, bundle.properties, bundle.body)
    for at in alone:
        yield (at,), _outgoing(names, publications[at], stays_ms[at])


def _groups(publications: Sequence[Publication], stays_ms: Sequence[int]) -> dict[_BundleKey, list[int]]:
    """Returns the indexes of the copies that may share a bundle, where they are at least two."""
    groups: dict[_BundleKey, list[int]] = {}
    for at, publication in enumerate(publications):
        if publication.shares and publication.route is Route.WHEEL:
            groups.setdefault((publication.copy.topic, publication.kind, stays_ms[at]), []).append(at)
    return {key: indexes for key, indexes in groups.items() if len(indexes) > 1}


def _outgoing(names: Names, publication: Publication, stay_ms: int) -> Outgoing:
    copy = publication.copy
    body = copy.envelope.body or b""
    if publication.route is Route.WHEEL:
        kind = None if publication.kind is CopyKind.PLAIN else publication.kind
        way = route(names.lane_for(copy.id), stay_ms, copy.topic, kind)
        return Outgoing(way.exchange, way.routing_key, CopyProperties(copy, parked=True), body)
    if publication.route is Route.READY:
        properties = CopyProperties(copy, live_for_ms=publication.live_for_ms)
        return Outgoing(names.ready_exchange, copy.topic, properties, body)
    return Outgoing("", names.dead_queue(copy.topic), CopyProperties(copy, reason=publication.reason), body)
