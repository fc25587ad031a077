"""Moves messages from old queues to new ones until the old queues are empty."""

import asyncio
import copy
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

import aiormq.abc
from pamqp.commands import Basic

from topology import plan
from topology.channels import look_at_all
from topology.connect import PikaConnection
from topology.declare import apply
from topology.errors import TopologyError
from topology.moves import Move, move
from topology.names import Names
from topology.plan import Queue
from topology.wheel import Slot

CONFIRM_TIMEOUT_S: Final = 30.0

SILENCE_S: Final = 60.0
"""A marker is a message that the drain publishes behind all others of a queue. Until the marker is delivered, other
deliveries keep coming. After this many seconds without a delivery, a queue is stuck or the connection is lost."""

MARKER: Final = "x-drain-marker"

# The headers CC and BCC of a producer would route another copy at once.
_ROUTING_HEADERS: Final = frozenset({"CC", "BCC"})


QueuedMessage = tuple[str, aiormq.abc.DeliveredMessage]
"""The name of the queue that a message came from, and the message."""


class Mover:
    """Consumes old queues on the channel `taking` and publishes on `giving`. Both channels stay open until the old
    queues are deleted. A channel that closes right after many acks may lose some acks, and the broker then redelivers
    the messages."""

    def __init__(
        self,
        connection: PikaConnection,
        taking: aiormq.abc.AbstractChannel,
        giving: aiormq.abc.AbstractChannel,
        *,
        old: Names,
        new: Names,
        moved: Counter[str],
    ) -> None:
        """`moved`: counts the messages by their old queue, as they move."""
        self._connection = connection
        self._taking = taking
        self._giving = giving
        self._old = old
        self._new = new
        self._arrived: asyncio.Queue[QueuedMessage] = asyncio.Queue()
        self._consumers: dict[Queue, str] = {}
        self._declared: set[tuple[int, Slot]] = set()
        self._moved = moved

    async def take_from(self, queues: Sequence[Queue]) -> None:
        for queue in queues:
            answer = await self._taking.basic_consume(queue.name, _into(self._arrived, queue.name))
            self._consumers[queue] = answer.consumer_tag or ""

    async def leave(self, queues: Sequence[Queue]) -> None:
        for queue in queues:
            await self._taking.basic_cancel(self._consumers.pop(queue))

    async def empty(self, queues: Sequence[Queue]) -> None:
        """Consumes `queues` until they are empty. Meanwhile moves the deliveries of every queue that the mover
        consumes.

        Raises:
            TopologyError: no message came for `SILENCE_S`.
        """
        while queues:
            await self.take_from(queues)
            queue_by_marker = {await self._mark(queue): queue.name for queue in queues}
            while queue_by_marker:
                await self._settle(await _burst(self._arrived, queue_by_marker.values()), queue_by_marker)
            await self.leave(queues)
            # Every delivery came before the answer to the cancel, and is in `_arrived` after one more round trip.
            counted = await look_at_all(self._connection, queues)
            if not self._arrived.empty():
                await self._settle(await _burst(self._arrived, ()), queue_by_marker)
            queues = tuple(queue for queue, existing in counted.items() if existing and existing.messages)

    async def _settle(self, batch: Sequence[QueuedMessage], queue_by_marker: dict[str, str]) -> None:
        """Moves and acknowledges a batch, and removes the batch's markers from `queue_by_marker`."""
        await self._move([taken for taken in batch if MARKER not in _headers(taken[1])])
        for _, message in batch:
            await self._taking.basic_ack(message.delivery_tag or 0, wait=False)
            queue_by_marker.pop(str(_headers(message).get(MARKER)), None)

    async def _mark(self, queue: Queue) -> str:
        """Publishes a marker to the queue and returns the marker's id."""
        marker = uuid4().hex
        properties = Basic.Properties(
            headers={MARKER: marker},
            delivery_mode=2,
            priority=0,  # the lowest: on 4.3 a message without a priority goes before it
            expiration="0" if "x-dead-letter-exchange" in queue.arguments else None,
        )
        await self._giving.basic_publish(
            b"", routing_key=queue.name, properties=properties, mandatory=True, timeout=CONFIRM_TIMEOUT_S
        )
        return marker

    async def _move(self, batch: Sequence[QueuedMessage]) -> None:
        now_ms = time.time_ns() // 1_000_000
        moves = [
            (
                message,
                move(
                    self._old,
                    self._new,
                    queue=name,
                    key=message.routing_key or "",
                    headers=_headers(message),
                    now_ms=now_ms,
                    message_id=message.header.properties.message_id,
                    exchange=message.exchange or "",
                ),
            )
            for name, message in batch
        ]
        await self._declare({(made.lane, slot) for _, made in moves for slot in made.slots})
        await asyncio.gather(*(_republish(self._giving, message, made) for message, made in moves))
        self._moved.update(name for name, _ in batch)

    async def _declare(self, slots: set[tuple[int, Slot]]) -> None:
        if missing := slots - self._declared:
            lanes = self._new.each_lane
            await apply(self._connection, plan.merged(plan.slot(lanes[lane], *slot) for lane, slot in missing))
            self._declared |= missing


async def _burst(arrived: asyncio.Queue[QueuedMessage], awaited: Iterable[str]) -> list[QueuedMessage]:
    """Returns all messages that have arrived, in the order of delivery. Waits for the first message.

    `awaited`: the queues that are not empty yet, which the error names.

    Raises:
        TopologyError: no message came for `SILENCE_S`.
    """
    try:
        async with asyncio.timeout(SILENCE_S):
            batch = [await arrived.get()]
    except TimeoutError as exc:
        raise TopologyError(
            f"no message came for {SILENCE_S:.0f} s; these queues are not empty yet: {', '.join(awaited)}."
            " Check the broker, then run the drain again"
        ) from exc
    while not arrived.empty():
        batch.append(arrived.get_nowait())
    return batch


async def _republish(giving: aiormq.abc.AbstractChannel, message: aiormq.abc.DeliveredMessage, made: Move) -> None:
    properties = copy.copy(message.header.properties)
    properties.headers = {name: value for name, value in made.headers.items() if name not in _ROUTING_HEADERS}
    properties.delivery_mode = 2
    # The broker refuses a user id other than the publisher's.
    properties.user_id = None
    if not made.keeps_expiration:
        properties.expiration = None
    await giving.basic_publish(
        message.body,
        exchange=made.exchange,
        routing_key=made.routing_key,
        properties=properties,
        mandatory=True,
        timeout=CONFIRM_TIMEOUT_S,
    )


def _headers(message: aiormq.abc.DeliveredMessage) -> Mapping[str, Any]:
    return message.header.properties.headers or {}


def _into(
    arrived: asyncio.Queue[QueuedMessage], name: str
) -> Callable[[aiormq.abc.DeliveredMessage], Coroutine[Any, Any, None]]:
    async def put(message: aiormq.abc.DeliveredMessage) -> None:
        arrived.put_nowait((name, message))

    return put
