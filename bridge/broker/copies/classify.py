"""What a delivery at the checkpoint is: due, short of a slot, back from its ready queue, or a bundle. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pamqp import commands as spec

from bridge.broker.client.decode_properties import deaths, latest_death
from bridge.broker.client.pamqp_patch import UNREADABLE
from bridge.broker.copies import bundles
from bridge.broker.copies.copies import from_properties
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import Copy, CopyKind
from topology.deaths import left_of_key_ms
from topology.names import Names
from topology.wheel import parse_key

_ON_TIME_MS = 1_000  # what is due sooner has missed no slot worth declaring again, so its deaths need not be read


@fast_dataclass(frozen=True, slots=True)
class Due:
    """A copy out of the wheel. `stranded_ms` is what its key has left where a slot was missing on its way; `kind` is
    what its key says it is."""

    copy: Copy
    stranded_ms: int = 0
    kind: CopyKind = CopyKind.PLAIN


@dataclass(frozen=True, slots=True)
class Bundle:
    """Copies out of the wheel in one message, to be parted once the earliest is due: until then they are bytes."""

    topic: str
    kind: CopyKind  # of its copies
    due_ms: int
    count: int
    stranded_ms: int
    properties: spec.Basic.Properties
    body: bytes

    def parted(self, *, now_ms: int) -> list[Due]:
        """
        Raises:
            ValueError, TypeError: it can't be read.
        """
        copies = bundles.part(self.topic, self.properties, self.body, now_ms=now_ms)
        return [Due(copy, self.stranded_ms, self.kind) for copy in copies]


@dataclass(frozen=True, slots=True)
class Back:
    """A copy that left its ready queue undelivered or undone: `reason` is the broker's."""

    copy: Copy
    reason: str

    @property
    def by_ttl(self) -> bool:
        return self.reason == "expired"


@dataclass(frozen=True, slots=True)
class Strange:
    """Something whose topic can't be told."""

    reason: str


Arrival = Due | Back | Bundle | Strange


def read(
    names: Names, routing_key: str, properties: spec.Basic.Properties, body: bytes, *, now_ms: int, max_retry: int
) -> Arrival:
    """Reads a delivery. An AMQP client's own message has no headers of ours: its key says what it is.

    Raises:
        ValueError: its deaths can't be read, or it is a bundle that does not say of how many copies, and when due.
    """
    if properties.headers and UNREADABLE in properties.headers:
        return Strange(f"its properties can't be read: {properties.headers[UNREADABLE]!s}")
    death = latest_death(properties.headers)
    if death is not None and (topic := names.topic_of_ready_queue(death[0])) is not None:
        copy = from_properties(topic, properties, body, now_ms=now_ms, max_retry=max_retry)
        return Back(copy, death[1])
    parsed = parse_key(routing_key)
    if parsed is None:
        return Strange(f"{routing_key!r} is not a key of the wheel: seven digits and a topic, 0.0.0.0.30.5.2.orders")
    if bundles.is_of_bundle(parsed.kind):
        due_ms, left_ms = bundles.due_ms(properties), 0
        if due_ms - now_ms > _ON_TIME_MS:
            left_ms = left_of_key_ms(names, routing_key, deaths(properties.headers)) or 0
        kind = bundles.kind_within(parsed.kind)
        return Bundle(parsed.topic, kind, due_ms, bundles.count(properties), left_ms, properties, body)
    copy = from_properties(parsed.topic, properties, body, now_ms=now_ms, max_retry=max_retry)
    if copy.epoch and copy.due_ms - now_ms <= _ON_TIME_MS:
        return Due(copy, kind=bundles.kind_of(parsed.kind))
    left_ms = left_of_key_ms(names, routing_key, deaths(properties.headers)) or 0
    if copy.epoch == 0:
        # What a client delays by key alone is due when its key says.
        copy = replace(copy, due_ms=now_ms + left_ms)
    return Due(copy, left_ms, bundles.kind_of(parsed.kind))
