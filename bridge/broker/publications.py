"""The ways a copy goes on the broker: into the wheel, to its topic's ready queue, to its dead-letter queue.

Copies that may share a message and stay in the wheel for as long travel as one bundle; a lone one is a plain message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from pamqp.commands import Basic
from ulid import ULID

from bridge.broker.client.delivery import Delivery
from bridge.broker.client.encode_properties import CopyProperties
from bridge.broker.client.publisher import Outgoing, Properties, Publisher
from bridge.broker.copies import bundles
from bridge.broker.copies.copies import as_refused
from bridge.broker.declared.declared import Declared
from bridge.model.errors import BrokerUnavailable, Unpublishable, Unroutable
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import Copy, CopyKind
from topology.names import Names
from topology.wheel import ceil_to_tenth, floor_to_tenth, route

LEAD_MS = 100
"""How much short of due the wheel aims, so that the checkpoint can release at the moment itself."""

_OLD_AFTER_MS = 3_000  # twice what a new queue takes to settle; copies say in whole seconds when they were made

Sharing = dict[tuple[str, CopyKind, int], list[int]]
"""The places of those that may share a bundle, by topic, kind and stay in the wheel."""


class Route(Enum):
    WHEEL = "wheel"
    READY = "ready"
    DEAD = "dead"


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class Publication:
    """A copy and the way it is to go.

    `left_ms`: for the wheel, what is left of its delay. `exact` aims short, for the checkpoint to wait for the moment;
    without it the delay is rounded up to a tenth of a second, and a delay people choose is one hop.
    `kind`: what the copy is, said in its key; a copy of a kind goes to the checkpoint also in a direct topic.
    `live_for_ms`: for a ready queue, what is left of its time to live, 0 for no end.
    `shares`: for the wheel, it may travel in one bundle with others that are published with it.
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
    """How long the wheel keeps a copy that has so much left, in whole tenths of a second."""
    return floor_to_tenth(left_ms - LEAD_MS) if exact else ceil_to_tenth(left_ms)


class CopyPublisher:
    """Publishes copies, after seeing to the objects they need."""

    def __init__(self, objects: Declared, publisher: Publisher, *, bundles: bool) -> None:
        """Without `bundles` every copy travels alone."""
        self._declared = objects
        self._bundles = bundles
        self._publisher = publisher
        self._names = objects.names

    async def publish(self, publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
        """Publishes all in one burst; for each, None once it is confirmed for good, or why it is not."""
        topics = {one.copy.topic for one in publications}
        try:
            for topic in topics:
                await self._declared.ensure_topic(topic)
        except BrokerUnavailable as error:
            return [error] * len(publications)
        messages = list(_messages(self._names, publications, _sharing(publications) if self._bundles else {}))
        results = await self._publisher.publish([outgoing for _, outgoing in messages])
        missing = [at for at, error in enumerate(results) if isinstance(error, Unroutable)]
        if missing:
            # Those of a bundle have their topic in common, and their way.
            of_each = [publications[messages[at][0][0]] for at in missing]
            again = await self._again(of_each, [messages[at][1] for at in missing])
            for at, found in zip(missing, again, strict=True):
                results[at] = found
        released = [one.copy for one in publications if one.route is not Route.WHEEL]
        old = {copy.topic for copy in released if _sent_long_before(copy)}
        await self._declared.settled({copy.topic for copy in released}, old=old)
        errors: list[BrokerUnavailable | None] = [None] * len(publications)
        for (places, _), result in zip(messages, results, strict=True):
            for at in places:
                errors[at] = result
        return errors

    async def refuse(self, message: Delivery | Copy, reason: str) -> None:
        """Puts aside what can't be understood, for an operator to see; of a bundle, the copy that can't be published.

        Raises:
            BrokerUnavailable
        """
        await self._declared.ensure_wheel()
        properties: Properties
        if isinstance(message, Copy):
            properties, body = CopyProperties(message, reason=reason), message.envelope.body or b""
        else:
            properties, body = as_refused(message, reason), message.body
        try:
            await self._put_aside(properties, body)
        except Unroutable:
            await self._declared.renew_wheel()
            await self._put_aside(properties, body)
        except Unpublishable:
            bare = Basic.Properties(message_id=str(ULID()), delivery_mode=2, headers={"x-delay-reason": reason})
            await self._put_aside(bare, body)

    async def _put_aside(self, properties: Properties, body: bytes) -> None:
        await self._publisher.publish_one(Outgoing("", self._names.refused, properties, body))

    async def _again(self, publications: list[Publication], outgoing: list[Outgoing]) -> list[BrokerUnavailable | None]:
        """Declares anew what somebody has deleted, and publishes once more."""
        try:
            if any(one.route is not Route.DEAD for one in publications):
                # An exchange of the wheel may have lost its bindings.
                await self._declared.renew_wheel()
            for topic in {one.copy.topic for one in publications}:
                await self._declared.renew_topic(topic)
        except BrokerUnavailable as error:
            return [error] * len(outgoing)
        return await self._publisher.publish(outgoing)


def _sent_long_before(copy: Copy) -> bool:
    """Whether it was sent seconds before it was due, and its topic's queues were declared then."""
    # For messages of AMQP clients, which have no epoch, nothing is declared when they are sent.
    return copy.epoch > 0 and copy.due_ms - copy.created_ms >= _OLD_AFTER_MS


def _messages(
    names: Names, publications: Sequence[Publication], sharing: Sharing
) -> Iterator[tuple[tuple[int, ...], Outgoing]]:
    """The messages to publish, each with the places of what it carries."""
    alone = dict.fromkeys(range(len(publications)))
    for (topic, kind, stay_ms), places in sharing.items():
        for bundle in bundles.pack([publications[at].copy for at in places]):
            # Of its own id, so that however many lanes there are, it is full.
            lane = names.lane_for(bundle.properties.message_id or "")
            way = route(lane, stay_ms, topic, bundles.kind_of_bundle(kind))
            packed = tuple(places[at] for at in bundle.places)
            for at in packed:
                del alone[at]
            yield packed, Outgoing(way.exchange, way.routing_key, bundle.properties, bundle.body)
    for at in alone:
        yield (at,), _outgoing(names, publications[at])


def _sharing(publications: Sequence[Publication]) -> Sharing:
    found: Sharing = {}
    if len(publications) > 1:
        for at, one in enumerate(publications):
            if one.shares and one.route is Route.WHEEL:
                stay_ms = parked_ms(one.left_ms, exact=one.exact)
                found.setdefault((one.copy.topic, one.kind, stay_ms), []).append(at)
    return {key: places for key, places in found.items() if len(places) > 1}


def _outgoing(names: Names, publication: Publication) -> Outgoing:
    copy = publication.copy
    body = copy.envelope.body or b""
    if publication.route is Route.WHEEL:
        stay_ms = parked_ms(publication.left_ms, exact=publication.exact)
        kind = None if publication.kind is CopyKind.PLAIN else publication.kind
        way = route(names.lane_for(copy.id), stay_ms, copy.topic, kind)
        return Outgoing(way.exchange, way.routing_key, CopyProperties(copy, parked=True), body)
    if publication.route is Route.READY:
        properties = CopyProperties(copy, live_for_ms=publication.live_for_ms)
        return Outgoing(names.ready_exchange, copy.topic, properties, body)
    return Outgoing("", names.dead_queue(copy.topic), CopyProperties(copy, reason=publication.reason), body)
