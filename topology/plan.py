"""The topology as a value: what has to stand on the broker, and why each argument is what it is.

    delay --#--> delay.hundreds-of-days --0.#--> delay.tens-of-days --*.0.#--> ... --> delay.tenths --> delay.due
                     |                               |                                     |               |
                 delay.100d ... delay.900d      delay.10d ... delay.90d              delay.100ms ...       |
                     '--expired: next hand           '--expired: next hand                 '--expired -----'

    each of these exchanges --what no binding takes--> delay.checkpoint

With several lanes all of this stands once for each, under `delay.lane1`, `delay.lane2` and so on beside `delay`.

Quorum queues, dead-lettered at least once: the broker holds a message in the queue it leaves until the queue it goes
to has confirmed it. For that all of quorum, `x-dead-letter-strategy: at-least-once`, `x-overflow: reject-publish` and
a dead-letter exchange are needed; one missing and it is at most once, without a word
(https://www.rabbitmq.com/docs/quorum-queues#dead-lettering).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from topology.names import TOPIC, Names
from topology.wheel import HANDS

Arguments = Mapping[str, str | int]

DELIVERY_LIMIT: Final = 20
"""Deliveries of a ready message before it comes back to the checkpoint: what 4.0 takes when told nothing."""

UNLIMITED_DELIVERIES: Final = 1_000_000_000
"""A limit that is never met. `-1` says so from 4.0 on, but 3.10 takes it for a limit and drops at the first return."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A durable exchange. `alternate` is the exchange that takes what no binding takes; None: it is unroutable."""

    name: str
    type: Literal["topic", "fanout"]
    alternate: str | None = None

    @property
    def arguments(self) -> Arguments:
        return {} if self.alternate is None else {"alternate-exchange": self.alternate}


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A durable quorum queue with its `x-` arguments."""

    name: str
    arguments: Arguments = field(hash=False)


@dataclass(frozen=True, kw_only=True)
class Binding:
    """A binding of the exchange `source` to a queue or an exchange."""

    source: str
    destination: str
    destination_type: Literal["queue", "exchange"]
    key: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What has to stand, in the order in which it is declared: exchanges, queues, bindings."""

    exchanges: tuple[Exchange, ...] = ()
    queues: tuple[Queue, ...] = ()
    bindings: tuple[Binding, ...] = ()

    def __add__(self, other: "Plan") -> "Plan":
        return merged((self, other))


def merged(plans: Iterable[Plan]) -> Plan:
    """All of them as one, with what they share once."""
    plans = tuple(plans)
    return Plan(
        exchanges=tuple(dict.fromkeys(item for plan in plans for item in plan.exchanges)),
        queues=tuple(dict.fromkeys(item for plan in plans for item in plan.queues)),
        bindings=tuple(dict.fromkeys(item for plan in plans for item in plan.bindings)),
    )


def core(names: Names) -> Plan:
    """All that stands from the start: each lane's exchanges and its checkpoint, acks, refused. No slot and no topic."""
    shared = Plan(
        exchanges=(
            Exchange(name=names.ready_exchange, type="topic"),
            Exchange(name=names.returned, type="fanout"),
            Exchange(name=names.acks, type="fanout"),
        ),
        queues=(_terminal(names.acks), _terminal(names.refused)),
        bindings=(
            _to_queue(names.acks, names.acks, ""),
            _to_exchange(names.returned, names.each_lane[0].checkpoint, ""),
        ),
    )
    return merged((*(_hands(lane) for lane in names.each_lane), shared))


def _hands(names: Names) -> Plan:
    """The exchanges of one lane, and its checkpoint."""
    hands = [names.hand(hand.name) for hand in HANDS]
    to_checkpoint = [names.entry, *hands, names.due]
    passed_over = zip(range(len(hands)), hands, [*hands[1:], names.due], strict=True)
    return Plan(
        exchanges=(
            Exchange(name=names.checkpoint, type="fanout"),
            *(Exchange(name=name, type="topic", alternate=names.checkpoint) for name in to_checkpoint),
        ),
        queues=(_terminal(names.checkpoint),),
        bindings=(
            _to_queue(names.checkpoint, names.checkpoint, ""),
            _to_exchange(names.entry, hands[0], "#"),
            *(_to_exchange(hand, faster, _digit_pattern(place, 0)) for place, hand, faster in passed_over),
        ),
    )


def slot(names: Names, hand: str, value: int) -> Plan:
    """The queue of one value of a hand in the lane of these names, and the binding that fills it. ValueError: the hand
    has no such slot."""
    place = next((place for place, known in enumerate(HANDS) if known.name == hand), None)
    if place is None or value not in HANDS[place].values:
        raise ValueError(f"no slot {value} on the hand {hand!r}")
    faster = names.due if HANDS[place] is HANDS[-1] else names.hand(HANDS[place + 1].name)
    queue = Queue(
        name=names.slot(hand, value),
        arguments=_dead_lettering(faster) | {"x-message-ttl": value * HANDS[place].unit_ms},
    )
    return Plan(queues=(queue,), bindings=(_to_queue(names.hand(hand), queue.name, _digit_pattern(place, value)),))


def slots(names: Names) -> Plan:
    """Every slot there is, 177 in each lane; the lanes of a slot stand side by side."""
    return merged(slot(lane, hand.name, value) for hand in HANDS for value in hand.values for lane in names.each_lane)


def topic(names: Names, topic: str, *, direct: bool = False, delivery_limit: int = DELIVERY_LIMIT) -> Plan:
    """The ready and the dead queue of a topic.

    `direct` adds the bindings that take plain due messages of the topic past each lane's checkpoint; a copy of a kind
    (`!lease.`) has one word more and goes to the checkpoint all the same. What leaves the ready queue by reject,
    expiry or `delivery_limit` comes to the checkpoint with the topic as its routing key. ValueError: not a topic.
    """
    if not TOPIC.fullmatch(topic):
        raise ValueError(f"{topic!r} is not a topic: `topic` or `namespace/topic`, each 1-100 of A-Z a-z 0-9 _ . -")
    ready = Queue(
        name=names.ready_queue(topic),
        arguments=_dead_lettering(names.returned) | {"x-delivery-limit": delivery_limit},
    )
    bindings = [_to_queue(names.ready_exchange, ready.name, topic)]
    if direct:
        bindings += [_to_queue(lane.due, ready.name, "*." * len(HANDS) + topic) for lane in names.each_lane]
    return Plan(queues=(ready, _terminal(names.dead_queue(topic))), bindings=tuple(bindings))


def whole(names: Names, *, checked: Iterable[str] = (), direct: Iterable[str] = ()) -> Plan:
    """Core, every slot, and the given topics."""
    return merged(
        (
            core(names),
            slots(names),
            *(topic(names, name) for name in checked),
            *(topic(names, name, direct=True) for name in direct),
        )
    )


def _digit_pattern(place: int, value: int) -> str:
    return "*." * place + f"{value}.#"


def _dead_lettering(exchange: str) -> dict[str, str | int]:
    # No x-dead-letter-routing-key: the key is kept, it says the rest of the way. No x-expires, which deletes a queue
    # with its messages. No length limit: a full target would hold dead letters in their slots for ever.
    return {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": exchange,
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }


def _terminal(name: str) -> Queue:
    # Without a dead-letter exchange a delivery limit would drop messages.
    return Queue(name=name, arguments={"x-queue-type": "quorum", "x-delivery-limit": UNLIMITED_DELIVERIES})


def _to_queue(source: str, destination: str, key: str) -> Binding:
    return Binding(source=source, destination=destination, destination_type="queue", key=key)


def _to_exchange(source: str, destination: str, key: str) -> Binding:
    return Binding(source=source, destination=destination, destination_type="exchange", key=key)
