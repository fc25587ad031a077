"""Publishes copies: into the wheel, to the ready queue or to the dead-letter queue of their topic."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

from ulid import ULID

from bridge.broker.client.encode_properties import CopyProperties
from bridge.broker.client.publisher import Outgoing, Publisher
from bridge.broker.copies.bundles import Entry
from bridge.broker.copies.copies import as_refused
from bridge.broker.copies.properties import Message, Properties
from bridge.broker.declared.declared import Declared
from bridge.broker.declared.topic_queues import Existing
from bridge.broker.publications import Carrying, Publication, Route, messages, parked_again
from bridge.broker.target_publisher import TargetPublisher
from bridge.model.errors import BrokerUnavailable, NotPublished, Unavailable, Unpublishable, Unroutable
from bridge.model.message import Copy, CopyKind
from topology.names import Names

_OLD_AFTER_MS = 3_000  # twice what a new queue takes to settle; a copy's `created_ms` is in whole seconds


class CopyPublisher:
    """Publishes copies, and first declares the queues that they need."""

    def __init__(
        self,
        declared: Declared,
        names: Names,
        publisher: Publisher,
        targets: TargetPublisher,
        existing: Existing,
        *,
        bundles: bool,
    ) -> None:
        """Without `bundles` every copy travels alone."""
        self._declared = declared
        self._names = names
        self._publisher = publisher
        self._targets = targets
        self._existing = existing
        self._bundles = bundles

    async def publish(self, publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
        """Publishes all copies in one burst. Returns for each copy None once its confirm counts, or the error. A
        `NotPublished` means that no queue has the copy."""
        try:
            removed = await self._declare(publications)
        except Unavailable as error:
            return [NotPublished(str(error))] * len(publications)
        if not removed:
            return await self._publish(publications)
        topics = [publication.copy.topic for publication in publications]
        left = [publication for publication in publications if publication.copy.topic not in removed]
        return _with_removed(topics, removed, await self._publish(left))

    async def _publish(self, publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
        targeted = [one for one in publications if one.route is Route.TARGET]
        if not targeted:
            return await self._publish_own(publications)
        own = [one for one in publications if one.route is not Route.TARGET]
        published = await asyncio.gather(
            self._publish_own(own),
            self._targets.publish([outgoing for _, outgoing in messages(self._names, targeted, bundled=False)]),
        )
        own_errors, target_errors = map(iter, published)
        return [next(target_errors if one.route is Route.TARGET else own_errors) for one in publications]

    async def _publish_own(self, publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
        async def again(missing: Sequence[Carrying]) -> list[BrokerUnavailable | None]:
            # The copies of a bundle have the same topic and route, so this asks only about the first copy.
            firsts = [publications[indexes[0]] for indexes, _ in missing]
            return await self._publish_again(firsts, [outgoing for _, outgoing in missing])

        errors = await self._carry(list(messages(self._names, publications, bundled=self._bundles)), again)
        released = [publication.copy for publication in publications if publication.route is Route.READY]
        old = {copy.topic for copy in released if _sent_long_before(copy)}
        await self._declared.settled({copy.topic for copy in released}, old=old, dead=_dead_topics(publications))
        return [errors[at] for at in range(len(publications))]

    async def park_again(
        self, topic: str, kind: CopyKind, entries: Sequence[tuple[Entry, float]]
    ) -> list[BrokerUnavailable | None]:
        """Publishes entries out of bundles in new bundles, each entry with what is left of its delay, in ms. Returns
        as `publish` does.

        The entries are not read, so nobody knows whether their topic still exists. Its queues are declared when they
        come due.
        """

        async def again(missing: Sequence[Carrying]) -> list[BrokerUnavailable | None]:
            try:
                await self._declared.wheel.renew()
            except BrokerUnavailable as error:
                return [error] * len(missing)
            return await self._publisher.publish([outgoing for _, outgoing in missing])

        try:
            await self._declared.wheel.ensure()
        except BrokerUnavailable as error:
            return [error] * len(entries)
        errors = await self._carry(list(parked_again(self._names, topic, kind, entries)), again)
        await self._declared.settled((), old=())
        return [errors[at] for at in range(len(entries))]

    async def _carry(
        self,
        carrying: Sequence[Carrying],
        again: Callable[[Sequence[Carrying]], Awaitable[list[BrokerUnavailable | None]]],
    ) -> dict[int, BrokerUnavailable | None]:
        """Publishes messages in one burst, and those that found no queue a second time by `again`. Returns the result
        of each copy, by its index."""
        results = await self._publisher.publish([outgoing for _, outgoing in carrying])
        missing = [at for at, error in enumerate(results) if isinstance(error, Unroutable)]
        if missing:
            for at, result in zip(missing, await again([carrying[at] for at in missing]), strict=True):
                results[at] = result
        return {at: result for (indexes, _), result in zip(carrying, results, strict=True) for at in indexes}

    async def refuse(self, message: Message | Copy, reason: str) -> None:
        """Puts a message aside, with the reason, for an operator to see.

        `message`: a delivery that can't be read, or a copy out of a bundle that can't be published.

        Raises:
            BrokerUnavailable
        """
        await self._declared.wheel.ensure()
        properties: Properties | CopyProperties
        if isinstance(message, Copy):
            properties, body = CopyProperties(message, reason=reason), message.envelope.body or b""
        else:
            properties, body = as_refused(message.properties, reason), message.body
        try:
            await self._put_aside(properties, body)
        except Unroutable:
            await self._declared.wheel.renew()
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
                await self._declared.wheel.renew()
            topics = [publication.copy.topic for publication in publications]
            self._declared.forget_topics(topics)
            removed = await self._declare(publications)
        except Unavailable as error:
            return [NotPublished(str(error))] * len(outgoing)
        left = [one for topic, one in zip(topics, outgoing, strict=True) if topic not in removed]
        return _with_removed(topics, removed, await self._publisher.publish(left))

    async def _declare(self, publications: Sequence[Publication]) -> set[str]:
        """Declares the queues that the publications need, but not of removed topics, which it returns."""
        topics = {publication.copy.topic for publication in publications}
        undeclared = {topic for topic in topics if not self._declared.has_topic(topic)}
        removed: set[str] = set()
        if undeclared:
            removed = undeclared.difference(await self._existing(undeclared))
            await asyncio.gather(*map(self._declared.ensure_topic, undeclared - removed))
        else:
            await self._declared.wheel.ensure()
        dying = {topic for topic in _dead_topics(publications) - removed if not self._declared.has_dead(topic)}
        if dying:
            await asyncio.gather(*map(self._declared.ensure_dead, dying))
        return removed


def _with_removed(
    topics: Sequence[str], removed: Collection[str], results: Sequence[BrokerUnavailable | None]
) -> list[BrokerUnavailable | None]:
    """Returns a result for each topic: an error for a removed one, and for the others, in order, the given results."""
    others = iter(results)
    return [NotPublished(f"there is no topic {topic!r}") if topic in removed else next(others) for topic in topics]


def _dead_topics(publications: Sequence[Publication]) -> set[str]:
    """Returns the topics of dead letters that have a queue of their own."""
    return {
        publication.copy.topic
        for publication in publications
        if publication.route is Route.DEAD and publication.copy.envelope.target is None
    }


def _sent_long_before(copy: Copy) -> bool:
    """Returns whether a bridge sent the message seconds before it was due, and declared its topic's queues then."""
    # Nobody declares queues when an AMQP client sends its own message, which has no epoch.
    return copy.epoch > 0 and copy.due_ms - copy.created_ms >= _OLD_AFTER_MS
