"""Publishes copies: into the wheel, to the ready queue or the dead-letter queue of their topic, or to their target."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from time import monotonic

from ulid import ULID

from bridge.broker.client.encode_properties import CopyProperties
from bridge.broker.client.publisher import Outgoing, Publisher
from bridge.broker.copies.bundles import Entry
from bridge.broker.copies.copies import as_refused
from bridge.broker.copies.properties import Message, Properties
from bridge.broker.declared.declared import Declared
from bridge.broker.declared.topic_queues import Existing
from bridge.broker.publications import Carrying, Publication, Route, dead_letter_may_follow, messages, parked_again
from bridge.broker.target_publisher import TargetPublisher
from bridge.model.errors import BrokerUnavailable, NotPublished, Unavailable, Unpublishable, Unroutable
from bridge.model.message import Copy, CopyKind, valid_id
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
        """`bundles`: copies may share bundles; False: every copy travels alone. `existing`: a function that returns
        which of the given topics may have queues."""
        self._declared = declared
        self._names = names
        self._publisher = publisher
        self._targets = targets
        self._existing = existing
        self._bundles = bundles

    async def publish(self, publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
        """Publishes all copies in one burst, and waits until all confirms count (`declared/young_queues.py`). Returns
        for each copy None if it is confirmed, or its error. A `NotPublished` means that no queue has the copy."""
        try:
            refused = await self._declare(publications)
        except Unavailable as error:
            return [NotPublished(str(error))] * len(publications)
        for topic in {one.copy.topic for one in publications if dead_letter_may_follow(one)} - set(refused):
            self._declared.expect_dead_letter(topic)
        if not refused:
            return await self._publish(publications)
        topics = [publication.copy.topic for publication in publications]
        left = [publication for publication in publications if publication.copy.topic not in refused]
        return _with_refused(topics, refused, await self._publish(left) if left else [])

    async def park(self, publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
        """Publishes copies into the wheel in one burst, and declares no queues of their topics. Returns for each copy
        None if it is confirmed, or its error."""
        try:
            await self._declared.wheel.ensure()
        except BrokerUnavailable as error:
            return [error] * len(publications)
        return await self._publish(publications)

    async def _publish(self, publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
        targeted = [one for one in publications if one.route is Route.TARGET]
        if not targeted:
            return await self._publish_own(publications)
        own = [one for one in publications if one.route is not Route.TARGET]
        published = await asyncio.gather(self._publish_own(own), self._publish_targeted(targeted))
        own_errors, target_errors = map(iter, published)
        return [next(target_errors if one.route is Route.TARGET else own_errors) for one in publications]

    async def _publish_targeted(self, publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
        outgoing = [one for _, one in messages(self._names, publications, bundled=False)]
        errors = await self._targets.publish(outgoing)
        for publication, error in zip(publications, errors, strict=True):
            _note_arrival(publication, error)
        return errors

    async def _publish_own(self, publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
        async def again(missing: Sequence[Carrying]) -> list[BrokerUnavailable | None]:
            # The copies of a bundle have the same topic and route, so this asks only about the first copy.
            firsts = [publications[indexes[0]] for indexes, _ in missing]
            return await self._publish_again(firsts, [outgoing for _, outgoing in missing])

        since_s, generation = monotonic(), self._publisher.connection.next_generation
        errors = await self._carry(list(messages(self._names, publications, bundled=self._bundles)), again)
        for at, publication in enumerate(publications):
            _note_arrival(publication, errors[at])
        released = [publication.copy for publication in publications if publication.route is Route.READY]
        old, dead = {copy.topic for copy in released if _sent_long_before(copy)}, _dead_topics(publications)
        were_new = await self._declared.settled({copy.topic for copy in released}, old=old, dead=dead, since_s=since_s)
        lost = await self._lost_since(generation) if were_new else None
        return [errors[at] or lost for at in range(len(publications))]

    async def _lost_since(self, generation: int) -> BrokerUnavailable | None:
        """Returns an error for messages in new queues if RabbitMQ may have been killed since their publish. Confirms
        that came before a kill do not count. `generation`: the number of the connection that carried the messages."""
        if await self._publisher.connection.lasts(generation):
            return None
        return BrokerUnavailable("the connection was lost before RabbitMQ's confirm of a new queue counted")

    async def park_again(
        self, topic: str, kind: CopyKind, entries: Sequence[tuple[Entry, float]]
    ) -> list[BrokerUnavailable | None]:
        """Packs entries of opened bundles into new bundles, and publishes the new ones. Each entry comes with the rest
        of its delay, in ms. Returns for each entry None if its new bundle is confirmed, or the error.

        The entries are not decoded, so the topic is not checked and may be removed by now. Its queues are declared when
        the copies are due.
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
        since_s, generation = monotonic(), self._publisher.connection.next_generation
        errors = await self._carry(list(parked_again(self._names, topic, kind, entries)), again)
        were_new = await self._declared.settled((), old=(), since_s=since_s)
        lost = await self._lost_since(generation) if were_new else None
        return [errors[at] or lost for at in range(len(entries))]

    async def _carry(
        self,
        carrying: Sequence[Carrying],
        again: Callable[[Sequence[Carrying]], Awaitable[list[BrokerUnavailable | None]]],
    ) -> dict[int, BrokerUnavailable | None]:
        """Publishes messages in one burst. Passes messages that found no queue to `again`, which publishes them a
        second time. Returns the result of each copy, by the copy's index."""
        results = await self._publisher.publish([outgoing for _, outgoing in carrying])
        missing = [at for at, error in enumerate(results) if isinstance(error, Unroutable)]
        if missing:
            for at, result in zip(missing, await again([carrying[at] for at in missing]), strict=True):
                results[at] = result
        return {at: result for (indexes, _), result in zip(carrying, results, strict=True) for at in indexes}

    async def refuse(self, message: Message | Copy, reason: str) -> None:
        """Puts a message aside: publishes it to `delay.refused` with the reason, for an operator.

        `message`: a delivery that can't be read, or a copy out of a bundle that can't be published.

        Raises:
            BrokerUnavailable: RabbitMQ did not confirm the message.
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
            known = properties.message_id or ""
            own_id = known if valid_id(known) else str(ULID())
            bare = Properties(message_id=own_id, delivery_mode=2, headers={"x-delay-reason": reason})
            await self._put_aside(bare, body)

    async def _put_aside(self, properties: Properties | CopyProperties, body: bytes) -> None:
        await self._publisher.publish_one(Outgoing("", self._names.refused, properties, body))

    async def _publish_again(
        self, publications: list[Publication], outgoing: list[Outgoing]
    ) -> list[BrokerUnavailable | None]:
        """Declares queues and bindings again, and then publishes again the AMQP messages that found no queue.
        `outgoing`: the messages. `publications`: for each message, the publication of the first copy that it carries.
        Returns None or the error for each message."""
        try:
            if any(publication.route is not Route.DEAD for publication in publications):
                # An exchange of the wheel may have lost its bindings.
                await self._declared.wheel.renew()
            topics = [publication.copy.topic for publication in publications]
            self._declared.forget_topics(topics)
            refused = await self._declare(publications)
        except Unavailable as error:
            return [NotPublished(str(error))] * len(outgoing)
        left = [one for topic, one in zip(topics, outgoing, strict=True) if topic not in refused]
        return _with_refused(topics, refused, await self._publisher.publish(left))

    async def _declare(self, publications: Sequence[Publication]) -> dict[str, NotPublished]:
        """Declares the queues that the publications need. Returns the errors by topic: the topic was removed, or
        RabbitMQ refuses the declare. Such an error concerns no other topic.

        Raises:
            Unavailable: RabbitMQ or Redis is away.
        """
        await self._declared.wheel.ensure()
        topics = {publication.copy.topic for publication in publications}
        undeclared = {topic for topic in topics if not self._declared.has_topic(topic)}
        refused: dict[str, NotPublished] = {}
        if undeclared:
            existing = undeclared & set(await self._existing(undeclared))
            refused = {topic: NotPublished(f"there is no topic {topic!r}") for topic in undeclared - existing}
            refused |= await _refusals(self._declared.ensure_topic, existing)
        dying = {topic for topic in _dead_topics(publications) - set(refused) if not self._declared.has_dead(topic)}
        if dying:
            refused |= await _refusals(self._declared.ensure_dead, dying)
        return refused


async def _refusals(ensure: Callable[[str], Awaitable[None]], topics: Collection[str]) -> dict[str, NotPublished]:
    """Declares the queues of all topics together. Returns the error of each topic that has one."""
    ended = await asyncio.gather(*map(ensure, topics), return_exceptions=True)
    errors = {topic: error for topic, error in zip(topics, ended, strict=True) if error is not None}
    for error in errors.values():
        if not isinstance(error, Unavailable):
            raise error
    return {
        topic: error if isinstance(error, NotPublished) else NotPublished(str(error)) for topic, error in errors.items()
    }


def _with_refused(
    topics: Sequence[str], refused: Mapping[str, NotPublished], results: Sequence[BrokerUnavailable | None]
) -> list[BrokerUnavailable | None]:
    """Returns one result for each item of `topics`: the error of a refused topic, or the next one of `results`."""
    others = iter(results)
    return [refused[topic] if topic in refused else next(others) for topic in topics]


def _dead_topics(publications: Sequence[Publication]) -> set[str]:
    """Returns the topics of publications that go to the dead-letter queue of their topic."""
    return {
        publication.copy.topic
        for publication in publications
        if publication.route is Route.DEAD and publication.copy.envelope.target is None
    }


def _note_arrival(publication: Publication, error: BrokerUnavailable | None) -> None:
    if publication.arrived is not None and error is None:
        publication.arrived()


def _sent_long_before(copy: Copy) -> bool:
    """Whether a bridge sent the message at least three seconds before the due moment. The bridge declared the topic's
    queues when it sent the message."""
    # When an AMQP client publishes a message, which has no epoch, nobody declares queues.
    return copy.epoch > 0 and copy.due_ms - copy.created_ms >= _OLD_AFTER_MS
