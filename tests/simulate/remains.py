"""Looks at what both servers hold after a simulation, and tells what must not be left."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from bridge.broker.client.decode_properties import decode_properties
from bridge.broker.copies import bundles
from bridge.broker.copies.copies import from_properties
from bridge.broker.copies.entries import decode
from bridge.broker.copies.properties import Properties
from bridge.model.message import Copy, State
from tests.explore.promises import Broken, check_store
from tests.explore.stored import DELIVERED, EPOCH, FORGET, NONCE, SNAPSHOT, STATE, Store, store_of
from tests.simulate.rabbitmq.message import Message
from tests.simulate.stage import Stage

_BEFORE_PROPERTIES: Final = bytes(12)  # class, weight and size of the body
_KEPT: Final = frozenset((State.WAITING, State.LEASED, State.DEAD))
_REFUSED: Final = "delay.refused"
"""Bridges put messages there that they can't read. The load sends none."""


def remains(stage: Stage, topics: tuple[str, ...]) -> Iterator[str]:
    """Yields each broken promise: a message that a bridge could not read, an index that differs from its records, or a
    record without an expiry whose copy no queue has. Ends all connections to RabbitMQ first, so that its queues have
    all messages."""
    stage.rabbit.advance()
    broker = stage.rabbit.broker
    broker.restart()
    stage.redis.expire()
    queues = {queue.name: queue.messages() for queue in broker.state.queues.values()}
    for message in queues.pop(_REFUSED, ()):
        yield f"refused: {(_properties(message).headers or {})['x-delay-reason']}"
    copies = [copy for messages in queues.values() for one in messages for copy in _copies(one)]
    for topic in topics:
        store = store_of(stage.redis.command("EVAL", SNAPSHOT, 0, f"delay/{{{topic}}}/*"))
        try:
            check_store(store)
        except Broken as broken:
            yield str(broken)
        if stage.may_lack_copies:
            continue
        yield from (f"5. no queue has the message of {topic}/{one}, which Redis keeps" for one in _lost(store, copies))


def _lost(store: Store, copies: list[Copy]) -> Iterator[str]:
    """Yields the ids of records that wait for a copy that no queue has. A client's own copy has no epoch."""
    names = {(copy.epoch, copy.nonce) for copy in copies}
    own = {copy.id for copy in copies if not copy.epoch}
    for message_id, record in store.records.items():
        is_there = {(record[EPOCH], record[NONCE]), (record[EPOCH] - 1, record[DELIVERED])} & names
        if record[STATE] in _KEPT and not record[FORGET] and not is_there and message_id not in own:
            yield message_id


def _copies(message: Message) -> Iterator[Copy]:
    """Reads the copies of a message: one, or those of a bundle."""
    properties = _properties(message)
    if properties.content_type != bundles.CONTENT_TYPE:
        yield from_properties("", properties, message.body, now_ms=0)
        return
    offsets = bundles.index(properties, message.body).offsets
    for start, end in pairwise(offsets):
        yield decode("", message.body[start:end], now_ms=0)


def _properties(message: Message) -> Properties:
    return decode_properties(_BEFORE_PROPERTIES + message.properties.encode())
