"""What a delivery turns out to be: a copy, a bundle that is to be parted, or something to put aside. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bridge.broker.client.consumer import Delivery
from bridge.broker.copies.classify import Arrival, Bundle, Due, Strange
from bridge.loops.checkpoint.batches import Item
from bridge.loops.checkpoint.verdicts import HELD_AT_MOST_MS
from bridge.model.message import Copy

# What reading comes upon. Raised where a delivery comes in, it would leave that with nobody.
_FAULTS = (ValueError, TypeError, LookupError, ArithmeticError, OSError)


@dataclass(frozen=True, slots=True)
class Refused:
    """`message`: a delivery as it came, or a copy out of a bundle."""

    tag: int
    message: Delivery | Copy
    reason: str


@dataclass(frozen=True, slots=True)
class PackedBundle:
    tag: int
    bundle: Bundle
    message: Delivery


Incoming = Item | PackedBundle | Refused


def incoming(read: Callable[..., Arrival], message: Delivery, now_ms: float) -> Incoming:
    """`read`: that of `bridge.broker.copies.classify`, with the names and the default of retries."""
    tag = message.delivery_tag
    try:
        arrival = read(
            routing_key=message.routing_key, properties=message.properties, body=message.body, now_ms=int(now_ms)
        )
    except _FAULTS as error:
        return _unreadable(tag, message, error)
    if isinstance(arrival, Strange):
        return Refused(tag, message, arrival.reason)
    if isinstance(arrival, Bundle):
        return PackedBundle(tag, arrival, message)
    return Item(tag, arrival, message)


def parted(one: PackedBundle, now_ms: float) -> list[Item] | Refused:
    """The copies in a bundle, all under its tag."""
    try:
        return [Item(one.tag, due, due.copy) for due in one.bundle.parted(now_ms=int(now_ms))]
    except _FAULTS as error:
        return _unreadable(one.tag, one.message, error)


def asked_ms(one: Incoming, now_ms: float) -> float:
    """When it is to be parted or asked about, in Unix ms: when it is due, where that is soon. What is due later than
    the wheel aims short was moved there by nobody we know: at once, as all else."""
    if isinstance(one, PackedBundle):
        due_ms = one.bundle.due_ms
    elif isinstance(one, Item) and isinstance(one.arrival, Due):
        due_ms = one.copy.due_ms
    else:
        return now_ms
    return due_ms if due_ms - now_ms <= HELD_AT_MOST_MS else now_ms


def turn_of(one: Incoming) -> tuple[str, int]:
    """The topic whose turn it takes, and how many copies of that. What is put aside has a turn of its own."""
    if isinstance(one, Item):
        return one.arrival.copy.topic, 1
    if isinstance(one, PackedBundle):
        return one.bundle.topic, one.bundle.count
    return "", 1


def _unreadable(tag: int, message: Delivery, error: Exception) -> Refused:
    return Refused(tag, message, f"it can't be read: {type(error).__name__}: {error}")
