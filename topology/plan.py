"""Plans the topology as a value: every exchange, queue and binding on the broker, and the reason for each argument.

    delay --8 words--> delay.hundreds-of-days --0.#--> delay.tens-of-days --*.0.#--> ... --> delay.tenths --> delay.due
                           |                               |                                     |               |
                       delay.100d ... delay.900d      delay.010d ... delay.090d       delay.000d-00h-00m-00.1s   |
                           '--expired: next hand           '--expired: next hand                 '--expired -----'

    each of these exchanges --alternate exchange, for keys without a binding--> delay.checkpoint

With several lanes there is one such wheel for each lane: `delay`, `delay.lane1`, `delay.lane2` and so on.

All queues are quorum queues. Slots, ready queues and the ingress queue dead-letter at least once. So the broker keeps a
message in its old queue until the new queue has confirmed it. That needs a quorum queue, `x-dead-letter-strategy:
at-least-once`, `x-overflow: reject-publish` and a dead-letter exchange. If one of these four is missing, the broker
gives no such guarantee, and may report no error (https://www.rabbitmq.com/docs/quorum-queues#dead-lettering).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from topology.former import FormerNames
from topology.names import TOPIC, Names
from topology.wheel import HANDS

Arguments = Mapping[str, str | int]

DELIVERY_LIMIT: Final = 20
"""Deliveries of a ready message before it goes back to the checkpoint. RabbitMQ 4.0 has the same default."""

UNLIMITED_DELIVERIES: Final = 1_000_000_000
"""A delivery limit that no message reaches. From RabbitMQ 4.0 on `-1` means no limit, but 3.10 takes `-1` for a limit,
and drops a message at its first requeue."""

KEEPS_LATEST: Final = "x-max-length"
"""The argument that limits a queue to its latest messages. Only the probe queues have it: their messages are empty, so
nothing is lost with them."""

_ENTRY_PATTERN: Final = "*." * (len(HANDS) + 1) + "#"
"""The pattern of a wheel key: seven numbers, and at least one word of a topic. Without it a message with a key such as
`5.orders` would wait in `delay.500d` before the checkpoint sees it."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A durable exchange. `alternate`: the exchange that receives messages whose key no binding matches; None: such
    messages are unroutable."""

    name: str
    type: Literal["topic", "fanout"]
    alternate: str | None = None

    @property
    def arguments(self) -> Arguments:
        return {} if self.alternate is None else {"alternate-exchange": self.alternate}


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A durable quorum queue. `arguments`: its `x-` arguments."""

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
    """Objects of the topology, in the order in which they are declared: exchanges, queues, bindings.

    `later`: queues that may be missing. A bridge declares each when the first message for it comes.
    `former`: bindings of earlier versions, which are removed once all other objects exist.
    `barring`: queues of earlier versions. While one of them exists, nothing is declared.
    """

    exchanges: tuple[Exchange, ...] = ()
    queues: tuple[Queue, ...] = ()
    later: tuple[Queue, ...] = ()
    bindings: tuple[Binding, ...] = ()
    former: tuple[Binding, ...] = ()
    barring: tuple[Queue, ...] = ()

    @property
    def every_queue(self) -> tuple[Queue, ...]:
        """All queues of the plan, with the queues that may be missing."""
        return self.queues + self.later

    def __add__(self, other: "Plan") -> "Plan":
        return merged((self, other))


def merged(plans: Iterable[Plan]) -> Plan:
    """Returns one plan that has every object of the given plans once."""
    plans = tuple(plans)
    return Plan(
        exchanges=tuple(dict.fromkeys(item for plan in plans for item in plan.exchanges)),
        queues=tuple(dict.fromkeys(item for plan in plans for item in plan.queues)),
        later=tuple(dict.fromkeys(item for plan in plans for item in plan.later)),
        bindings=tuple(dict.fromkeys(item for plan in plans for item in plan.bindings)),
        former=tuple(dict.fromkeys(item for plan in plans for item in plan.former)),
        barring=tuple(dict.fromkeys(item for plan in plans for item in plan.barring)),
    )


def core(names: Names) -> Plan:
    """Returns the objects that a bridge declares at its start: each lane's exchanges and checkpoint, acks, refused,
    unroutable, the ingress and the probes. This plan has no slots and no topics."""
    shared = Plan(
        exchanges=(
            Exchange(name=names.ready_exchange, type="topic"),
            Exchange(name=names.returned, type="fanout"),
            Exchange(name=names.acks, type="fanout"),
            # The alternate exchange leads all keys on. A binding might come later than the exchange.
            Exchange(name=names.done, type="topic", alternate=names.acks),
            _ingress_exchange(names, names.ingress),
        ),
        queues=(
            *map(_terminal, (names.acks, names.refused, names.unroutable)),
            _ingress_queue(names),
            *map(_probe, names.probes),
        ),
        bindings=(
            _to_queue(names.acks, names.acks, ""),
            _to_queue(names.ingress, names.ingress, "#"),
            _to_exchange(names.returned, names.each_lane[0].checkpoint, ""),
        ),
        # An earlier build declared all its slots in their order. So the last slot in lane 0 exists if any slot does.
        barring=slot(FormerNames.of(names.in_lane(0)), HANDS[-1].name, HANDS[-1].values[-1]).queues,
    )
    return merged((*(_hands(lane) for lane in names.each_lane), shared))


def _hands(names: Names) -> Plan:
    """Returns the exchanges of one lane, and its checkpoint."""
    hands = [names.hand(hand.name) for hand in HANDS]
    to_checkpoint = [names.entry, *hands, names.due]
    next_exchanges = zip(range(len(hands)), hands, [*hands[1:], names.due], strict=True)
    return Plan(
        exchanges=(
            Exchange(name=names.checkpoint, type="fanout"),
            *(Exchange(name=name, type="topic", alternate=names.checkpoint) for name in to_checkpoint),
        ),
        queues=(_terminal(names.checkpoint),),
        bindings=(
            _to_queue(names.checkpoint, names.checkpoint, ""),
            _to_exchange(names.entry, hands[0], _ENTRY_PATTERN),
            *(_to_exchange(hand, faster, _digit_pattern(place, 0)) for place, hand, faster in next_exchanges),
        ),
        former=(_to_exchange(names.entry, hands[0], "#"),),
    )


def slot(names: Names, hand: str, value: int) -> Plan:
    """Returns the queue of one value of a hand, and the binding that fills it, in the lane of these names.

    Raises:
        ValueError: the hand has no such slot.
    """
    place = next((place for place, known in enumerate(HANDS) if known.name == hand), None)
    if place is None or value not in HANDS[place].values:
        raise ValueError(f"the hand {hand!r} has no slot {value}")
    faster = names.due if HANDS[place] is HANDS[-1] else names.hand(HANDS[place + 1].name)
    queue = Queue(
        name=names.slot(hand, value),
        arguments=_dead_lettering(faster) | {"x-message-ttl": value * HANDS[place].unit_ms},
    )
    return Plan(queues=(queue,), bindings=(_to_queue(names.hand(hand), queue.name, _digit_pattern(place, value)),))


def slots(names: Names) -> Plan:
    """Returns every slot, 177 in each lane. Slots of the same value in different lanes are next to each other."""
    return merged(slot(lane, hand.name, value) for hand in HANDS for value in hand.values for lane in names.each_lane)


def topic(names: Names, topic: str, *, direct: bool = False, delivery_limit: int = DELIVERY_LIMIT) -> Plan:
    """Returns the ready queue of a topic, and its dead queue, which may be missing until the topic has a dead letter.

    `direct` adds the bindings that lead plain due messages of the topic past each lane's checkpoint. A copy with a kind
    (`!lease.`) has one word more in its key, so it still goes to the checkpoint. A message that leaves the ready queue
    by reject, expiry or `delivery_limit` comes to the checkpoint with the topic as its routing key.

    Raises:
        ValueError: `topic` is not a topic's name.
    """
    if not TOPIC.fullmatch(topic):
        raise ValueError(
            f"{topic!r} is not a topic: it must be `topic` or `namespace/topic`, each 1 to 100 of A-Z a-z 0-9 _ . -"
        )
    ready = Queue(
        name=names.ready_queue(topic),
        arguments=_dead_lettering(names.returned) | {"x-delivery-limit": delivery_limit},
    )
    bindings = [_to_queue(names.ready_exchange, ready.name, topic)]
    if direct:
        bindings += [_to_queue(lane.due, ready.name, "*." * len(HANDS) + topic) for lane in names.each_lane]
    return Plan(queues=(ready,), later=(_terminal(names.dead_queue(topic)),), bindings=tuple(bindings))


def ingress_of(names: Names, exchange: str) -> Plan:
    """Returns the ingress exchange of `exchange`, and its binding to the ingress queue.

    Raises:
        ValueError: the name `exchange` is empty or too long.
    """
    own = names.ingress_of(exchange)
    return Plan(exchanges=(_ingress_exchange(names, own),), bindings=(_to_queue(own, names.ingress, "#"),))


def whole(names: Names, *, checked: Iterable[str] = (), direct: Iterable[str] = ()) -> Plan:
    """Returns the whole topology: the objects that a bridge declares at its start (`core`), every slot, and the queues
    of the given topics. `checked`, `direct`: the names of topics with checked and with direct release."""
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
    # No x-dead-letter-routing-key: the original key leads the rest of the way. No x-expires: it deletes a queue with
    # its messages. No length limit: a full target queue would hold dead letters in their slots for ever.
    return {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": exchange,
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }


def _terminal(name: str) -> Queue:
    # Without a dead-letter exchange a delivery limit would drop messages.
    return Queue(name=name, arguments={"x-queue-type": "quorum", "x-delivery-limit": UNLIMITED_DELIVERIES})


def _ingress_exchange(names: Names, name: str) -> Exchange:
    # The checkpoint also accepts messages whose delay is in a header. So a lost binding loses no message.
    return Exchange(name=name, type="topic", alternate=names.each_lane[0].checkpoint)


def _ingress_queue(names: Names) -> Queue:
    # A client's `expiration` counts from the release. While no bridge takes the message, the queue would apply it.
    arguments = _dead_lettering(names.each_lane[0].checkpoint) | {"x-delivery-limit": UNLIMITED_DELIVERIES}
    return Queue(name=names.ingress, arguments=arguments)


def _probe(name: str) -> Queue:
    # A quorum queue, as only such a queue needs the majority that all other queues need. A new message removes the one
    # before.
    return Queue(name=name, arguments={"x-queue-type": "quorum", KEEPS_LATEST: 1, "x-overflow": "drop-head"})


def _to_queue(source: str, destination: str, key: str) -> Binding:
    return Binding(source=source, destination=destination, destination_type="queue", key=key)


def _to_exchange(source: str, destination: str, key: str) -> Binding:
    return Binding(source=source, destination=destination, destination_type="exchange", key=key)
