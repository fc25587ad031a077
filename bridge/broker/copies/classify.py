"""Decides what a delivery at the checkpoint is. Pure.

A delivery is a due copy, a copy that its ready queue returned, a bundle, a message whose delay is in a header, or
unusable.
"""

from __future__ import annotations

from dataclasses import replace

from bridge.broker.copies import bundles
from bridge.broker.copies.bundles import Entry
from bridge.broker.copies.copies import from_properties, target_of
from bridge.broker.copies.entries import decode
from bridge.broker.copies.open_bundle import OpenBundle
from bridge.broker.copies.properties import UNREADABLE, MadeMessage, Message, Properties, deaths, latest_death
from bridge.broker.copies.submissions import (
    DELAY,
    Submission,
    Unacceptable,
    expired_in_ingress,
    is_submission,
    submission,
)
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import Copy, CopyKind
from topology.deaths import left_of_key_ms
from topology.names import Names
from topology.wheel import WheelKey, fault_of_key, parse_key

_SECOND_MS = 1_000  # RabbitMQ gives the time when a message left a queue in whole seconds
_ON_TIME_MS = 1_000  # a copy due sooner has missed no slot worth declaring again, so its `x-death` is not read

# The errors of malformed properties and bodies. Raised in the consumer's callback, they would lose the delivery.
_FAULTS = (ValueError, TypeError, LookupError, ArithmeticError, OSError)


@fast_dataclass(frozen=True, slots=True)
class Due:
    """A copy out of the wheel.

    `tag`: the delivery tag. `original`: the message as it was delivered, or the copy itself if the copy came in a
    bundle. The checkpoint puts `original` aside if the copy can't be published. `stranded_ms`: the delay that was left
    when a slot on the copy's way was missing; 0 if none was. `kind`: the kind that the routing key names. `waited_ms`:
    the whole delay, in ms, if the copy has waited it in the wheel. None: the copy may have waited less.
    """

    tag: int
    original: Message | Copy
    copy: Copy
    stranded_ms: int = 0
    kind: CopyKind = CopyKind.PLAIN
    waited_ms: int | None = None

    @property
    def topic(self) -> str:
        return self.copy.topic

    @property
    def count(self) -> int:
        return 1


@fast_dataclass(frozen=True, slots=True)
class Returned:
    """A copy that its ready queue has dead-lettered. `reason`: why, in RabbitMQ's words (`rejected`, `expired`,
    `delivery_limit`). `tag`: the delivery tag. `original`: the message as it was delivered; the checkpoint puts it
    aside if the copy can't be published."""

    tag: int
    original: Message | Copy
    copy: Copy
    reason: str

    @property
    def by_ttl(self) -> bool:
        return self.reason == "expired"

    @property
    def topic(self) -> str:
        return self.copy.topic

    @property
    def count(self) -> int:
        return 1


@fast_dataclass(frozen=True, slots=True)
class Unusable:
    """A message that can't be read, or a copy that can't be published. `original`: the message or copy; the checkpoint
    puts it aside. `tag`: the delivery tag. `reason`: a text for an operator."""

    tag: int
    original: Message | Copy
    reason: str

    @property
    def topic(self) -> str:
        return ""

    @property
    def count(self) -> int:
        return 1


@fast_dataclass(frozen=True, slots=True)
class Bundle:
    """A message out of the wheel that holds `count` copies of one kind. It is opened when its earliest copy is due, at
    `due_ms`.

    `tag`: the delivery tag. `original`: the message as it was delivered. `stranded_ms`: the delay that was left when a
    slot on the bundle's way was missing; 0 if none was. `waited_ms`: the whole delay of the earliest copy, in ms, if
    the copy has waited it. None: the copy may have waited less.
    """

    tag: int
    original: Message
    topic: str
    kind: CopyKind  # of its copies
    due_ms: int  # of the earliest
    count: int
    stranded_ms: int
    waited_ms: int | None = None  # as in `Due`, for the earliest copy

    def in_queue_ms(self, wall_ms: float) -> float | None:
        """Returns how long the bundle has waited in the checkpoint's queue, in ms: a lower bound. None: unknown.
        `wall_ms`: now, by this machine's clock, in Unix ms.

        `x-death` says, in whole seconds of RabbitMQ's clock, when the bundle left its last slot. The bridge compares
        that moment with this machine's clock, and not with Redis' clock, which may have jumped. The bound holds unless
        this machine's clock is ahead of RabbitMQ's.
        """
        try:
            died = deaths(self.original.properties.headers)
        except ValueError:
            return None
        return None if not died or died[0].at_ms is None else max(0.0, wall_ms - died[0].at_ms - _SECOND_MS)

    def open(self) -> OpenBundle | Unusable:
        message = self.original
        try:
            index = bundles.index(message.properties, message.body)
        except _FAULTS as error:
            return _unreadable(message, error)
        return OpenBundle(self.tag, self.topic, self.kind, self.stranded_ms, index, message.body, self.waited_ms)


Arrival = Due | Returned | Bundle | OpenBundle | Submission | Unusable


def due_of(bundle: OpenBundle, entry: Entry, *, now_ms: int) -> Due | Unusable:
    """Decodes an entry of an opened bundle into its copy. The result has the bundle's delivery tag. Returns `Unusable`
    if the entry can't be read. `now_ms`: Unix ms."""
    try:
        copy = decode(bundle.topic, entry.data, now_ms=now_ms)
    except _FAULTS as error:
        properties = Properties(content_type=bundles.CONTENT_TYPE, headers={"x-delay-topic": bundle.topic})
        made = MadeMessage(properties=properties, body=entry.data, delivery_tag=bundle.tag)
        return _unreadable(made, error)
    return Due(bundle.tag, copy, copy, bundle.stranded_ms, bundle.kind, bundle.waited_by_ms(copy.due_ms))


def submitted(names: Names, message: Message, *, now_ms: int) -> Submission | Unusable:
    """Reads a message whose delay is in a header. Returns `Unusable` if the message can't be accepted. `names`: the
    names of the bridge's objects. `now_ms`: Unix ms."""
    try:
        return submission(names, message, now_ms=now_ms)
    except Unacceptable as error:
        return Unusable(message.delivery_tag, message, str(error))
    except _FAULTS as error:
        return _unreadable(message, error)


def classify(names: Names, message: Message, *, now_ms: int) -> Arrival:
    """Reads a delivery at the checkpoint, and returns what it is. A message that an AMQP client published has none of
    the bridge's headers; its routing key shows which kind of message it is. `names`: the names of the objects in the
    checkpoint's lane. `now_ms`: Unix ms."""
    try:
        return _classify(names, message, message.properties, now_ms)
    except _FAULTS as error:
        return _unreadable(message, error)


def _classify(names: Names, message: Message, properties: Properties, now_ms: int) -> Arrival:
    """Says what a delivery is. Raises an error for a message that can't be read; `classify` returns `Unusable` then.

    Raises:
        ValueError: `x-death` can't be read, or a bundle does not say how many copies it holds and when they are due.
    """
    tag, routing_key, headers = message.delivery_tag, message.routing_key, properties.headers
    if headers and UNREADABLE in headers:
        return Unusable(tag, message, f"the message's properties can't be read: {headers[UNREADABLE]!s}")
    death = latest_death(headers)
    if death is not None and (topic := names.topic_of_ready_queue(death[0])) is not None:
        copy = from_properties(topic, properties, message.body, now_ms=now_ms)
        return Returned(tag, message, copy, death[1])
    if expired_in_ingress(names, properties):
        return submitted(names, message, now_ms=now_ms)
    parsed = parse_key(routing_key)
    if parsed is None:
        if is_submission(names, message):
            return submitted(names, message, now_ms=now_ms)
        reason = (
            f"{routing_key!r} is not a key of the wheel: {fault_of_key(routing_key)}. A key has seven numbers and a"
            f" topic, as 0.0.0.0.30.5.2.orders; without such a key the message needs the header {DELAY}"
        )
        return Unusable(tag, message, reason)
    if bundles.is_of_bundle(parsed.kind):
        due_ms, left_ms = bundles.due_ms(properties), 0
        if due_ms - now_ms > _ON_TIME_MS:
            left_ms = left_of_key_ms(names, routing_key, deaths(headers)) or 0
        kind = bundles.kind_within(parsed.kind)
        waited_ms = _waited_ms(parsed, kind, left_ms, 0)
        return Bundle(tag, message, parsed.topic, kind, due_ms, bundles.count(properties), left_ms, waited_ms)
    target_of(headers or {})  # raises if a client's target can't be read
    copy = from_properties(parsed.topic, properties, message.body, now_ms=now_ms)
    kind = bundles.kind_of(parsed.kind)
    if copy.epoch and copy.due_ms - now_ms <= _ON_TIME_MS:
        return Due(tag, message, copy, kind=kind, waited_ms=_waited_ms(parsed, kind, 0, copy.asked))
    left_ms = left_of_key_ms(names, routing_key, deaths(headers)) or 0
    if copy.epoch == 0:
        # A message that a client delays by key alone is due when its key says.
        copy = replace(copy, due_ms=now_ms + left_ms)
    return Due(tag, message, copy, left_ms, kind, _waited_ms(parsed, kind, left_ms, copy.asked))


def _waited_ms(parsed: WheelKey, kind: CopyKind, left_ms: int, asked: int) -> int | None:
    """Returns how many ms a copy has waited, if it has waited its whole delay; else None. `parsed`: the copy's routing
    key. `left_ms`: the rest of the key's delay. `asked`: how often the checkpoint found the copy newer than its record.

    The result for a copy that the checkpoint has held or asked about is None, because it may have entered the wheel
    with less than its delay.
    """
    return None if left_ms or asked or kind is CopyKind.HOLD else parsed.delay_ms


def _unreadable(message: Message, error: Exception) -> Unusable:
    return Unusable(message.delivery_tag, message, f"the message can't be read: {type(error).__name__}: {error}")
