"""Makes the AMQP messages for copies: decides where each copy goes, and which copies share a bundle. Pure.

Copies of one topic that are published together share a bundle if they are in one window (`copies/windows.py`). A copy
that is alone in its window is a message by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from bridge.broker.client.encode_properties import CopyProperties
from bridge.broker.client.publisher import Outgoing
from bridge.broker.copies import bundles
from bridge.broker.copies.bundles import LARGEST_ENTRY, Entry, Packed
from bridge.broker.copies.entries import encode
from bridge.broker.copies.windows import windows
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import Copy, CopyKind
from topology.names import Names
from topology.wheel import MAX_DELAY_MS, TENTH_MS, ceil_to_tenth, floor_to_tenth, route

LEAD_MS = 100
"""By how many ms the wheel aims before the due moment, so that the checkpoint can release at the exact moment."""

Carrying = tuple[tuple[int, ...], Outgoing]
"""A message to publish, with the indexes of the copies that it carries."""


class Route(Enum):
    """The place to which a copy is published. `DEAD` is the topic's dead-letter queue. For a message with a target, it
    is the queue `delay.unroutable`, which all topics share."""

    WHEEL = "wheel"
    READY = "ready"
    TARGET = "target"
    DEAD = "dead"


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class Publication:
    """A copy and its route.

    `left_ms`: for the wheel, the rest of the copy's delay. `exact`: the copy leaves the wheel before its due moment,
    and the checkpoint waits for that moment. So the copy needs a kind. False: the delay is rounded up to a tenth of a
    second, so a delay such as 30 s is one hop. `kind`: written in the routing key, unless it is `PLAIN`. A copy with a
    kind in its key goes to the checkpoint even if its topic has direct release. `live_for_ms`: for a ready queue or a
    target, the rest of the time to live; 0 for no end. `reason`: for a dead-letter queue, why the copy is a dead
    letter. `shares`: for the wheel, the copy may share a bundle with other copies that are published with it.
    `arrived`: for a ready queue or a target, called once a queue has confirmed the copy, even if the confirm does not
    count yet.
    """

    copy: Copy
    route: Route
    left_ms: float = 0.0
    exact: bool = True
    kind: CopyKind = CopyKind.PLAIN
    live_for_ms: int = 0
    reason: str = ""
    shares: bool = False
    arrived: Callable[[], None] | None = None


def parked_ms(left_ms: float, *, exact: bool) -> int:
    """Returns how many ms the wheel keeps a copy, in whole tenths of a second. `left_ms`: the rest of the copy's delay.
    `exact`: the copy leaves the wheel `LEAD_MS` before its due moment, or up to a tenth of a second earlier. False: the
    copy leaves the wheel at its due moment, or up to a tenth of a second later.

    The result is at most the longest delay, 999 days. `left_ms` may be more, because the estimate of Redis' clock is a
    little behind.
    """
    return min(floor_to_tenth(left_ms - LEAD_MS) if exact else ceil_to_tenth(left_ms), MAX_DELAY_MS)


def short_ms() -> int:
    """Returns an upper bound, in ms: how long before its due moment a copy may leave the wheel."""
    return LEAD_MS + TENTH_MS


def dead_letter_may_follow(publication: Publication) -> bool:
    """Whether the message may next go to its topic's dead queue. True for a lease copy if the message has no retry
    left, and for the copy of the last retry. Always False if the message has a target."""
    copy = publication.copy
    if publication.kind is CopyKind.LEASE:
        last = copy.max_retry + 1
    elif publication.kind is CopyKind.RETRY:
        last = copy.max_retry
    else:
        return False
    return copy.attempt > last and copy.envelope.target is None


def messages(names: Names, publications: Sequence[Publication], *, bundled: bool) -> Iterator[Carrying]:
    """Yields the messages that carry the copies. `bundled`: copies may share bundles."""
    alone = dict.fromkeys(range(len(publications)))
    groups = _groups(publications) if bundled and len(publications) > 1 else []
    for group in groups:
        for indexes, outgoing in _bundled(names, publications, group):
            for at in indexes:
                del alone[at]
            yield indexes, outgoing
    for at in alone:
        yield (at,), _outgoing(names, publications[at])


def parked_again(
    names: Names, topic: str, kind: CopyKind, entries: Sequence[tuple[Entry, float]]
) -> Iterator[Carrying]:
    """Yields new bundles for entries that were taken out of bundles. Each entry comes with the rest of its delay, in
    ms."""
    for window in windows([left_ms for _, left_ms in entries]):
        for packed in bundles.pack(topic, [entries[at][0] for at in window]):
            indexes = tuple(window[at] for at in packed.indexes)
            stay_ms = parked_ms(min(entries[at][1] for at in indexes), exact=True)
            yield indexes, _outgoing_bundle(names, topic, kind, packed, stay_ms)


def _groups(publications: Sequence[Publication]) -> list[list[int]]:
    """Groups the copies that may share bundles. Returns lists of at least two indexes."""
    groups: dict[tuple[str, CopyKind], list[int]] = {}
    for at, publication in enumerate(publications):
        if publication.shares and publication.route is Route.WHEEL:
            groups.setdefault((publication.copy.topic, publication.kind), []).append(at)
    return [indexes for indexes in groups.values() if len(indexes) > 1]


def _bundled(names: Names, publications: Sequence[Publication], group: list[int]) -> Iterator[Carrying]:
    """Yields the bundles of a group of copies that may share bundles. Leaves out copies that fit into no bundle."""
    first = publications[group[0]]
    for window in windows([publications[at].left_ms for at in group]):
        sharing: list[int] = []
        entries: list[Entry] = []
        for at in window if len(window) > 1 else ():
            copy = publications[group[at]].copy
            data = encode(copy)
            if data is not None and len(data) <= LARGEST_ENTRY:
                sharing.append(group[at])
                entries.append(Entry(copy.due_ms, data))
        for packed in bundles.pack(first.copy.topic, entries) if len(entries) > 1 else ():
            if len(packed.indexes) > 1:
                indexes = tuple(sharing[at] for at in packed.indexes)
                stay_ms = parked_ms(min(publications[at].left_ms for at in indexes), exact=first.exact)
                yield indexes, _outgoing_bundle(names, first.copy.topic, first.kind, packed, stay_ms)


def _outgoing_bundle(names: Names, topic: str, kind: CopyKind, packed: Packed, stay_ms: int) -> Outgoing:
    # The bundle's own id chooses the lane. If its copies' ids chose it, there would be smaller bundles, one for each
    # lane.
    lane = names.lane_for(packed.properties.message_id or "")
    way = route(lane, stay_ms, topic, bundles.kind_of_bundle(kind))
    return Outgoing(way.exchange, way.routing_key, packed.properties, packed.body)


def _outgoing(names: Names, publication: Publication) -> Outgoing:
    copy = publication.copy
    body = copy.envelope.body or b""
    if publication.route is Route.WHEEL:
        kind = None if publication.kind is CopyKind.PLAIN else publication.kind
        stay_ms = parked_ms(publication.left_ms, exact=publication.exact)
        way = route(names.lane_for(copy.id), stay_ms, copy.topic, kind)
        return Outgoing(way.exchange, way.routing_key, CopyProperties(copy, parked=True), body)
    if publication.route is Route.READY:
        properties = CopyProperties(copy, live_for_ms=publication.live_for_ms)
        return Outgoing(names.ready_exchange, copy.topic, properties, body)
    target = copy.envelope.target
    if publication.route is Route.TARGET and target is not None:
        properties = CopyProperties(copy, live_for_ms=publication.live_for_ms, to_target=True)
        return Outgoing(target.exchange, target.routing_key, properties, body)
    queue = names.dead_queue(copy.topic) if target is None else names.unroutable
    return Outgoing("", queue, CopyProperties(copy, reason=publication.reason), body)
