"""Taking messages from old queues and giving them to new ones, until the old queues are empty."""

import asyncio
import copy
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

import aiormq.abc
from aio_pika.abc import AbstractConnection
from pamqp.commands import Basic

from topology import plan
from topology.channels import look_at_all
from topology.declare import apply
from topology.errors import TopologyError
from topology.moves import Move, move
from topology.names import Names
from topology.plan import Queue
from topology.wheel import Slot

CONFIRM_TIMEOUT_S: Final = 30.0

SILENCE_S: Final = 60.0
"""With a marker under way something comes all the time. After this long without, a queue is stuck or the link gone."""

MARKER: Final = "x-drain-marker"

# A producer's CC and BCC would send another copy at once.
_ROUTING_HEADERS: Final = frozenset({"CC", "BCC"})


Taken = tuple[str, aiormq.abc.DeliveredMessage]
"""The queue a message was taken from, and the message."""


class Mover:
    """Takes from old queues and gives to new ones, on two channels that stay open until the old queues are deleted:
    a channel that closes behind a burst of acks may leave some undone, and their messages come again."""

    def __init__(
        self,
        connection: AbstractConnection,
        taking: aiormq.abc.AbstractChannel,
        giving: aiormq.abc.AbstractChannel,
        *,
        old: Names,
        new: Names,
    ) -> None:
        self._connection = connection
        self._taking = taking
        self._giving = giving
        self._old = old
        self._new = new
        self._arrived: asyncio.Queue[Taken] = asyncio.Queue()
        self._consumers: dict[Queue, str] = {}
        self._declared: set[tuple[int, Slot]] = set()
        self.moved: Counter[str] = Counter()

    async def take_from(self, queues: Sequence[Queue]) -> None:
        for queue in queues:
            began = await self._taking.basic_consume(queue.name, _into(self._arrived, queue.name))
            self._consumers[queue] = began.consumer_tag or ""

    async def leave(self, queues: Sequence[Queue]) -> None:
        for queue in queues:
            await self._taking.basic_cancel(self._consumers.pop(queue))

    async def empty(self, queues: Sequence[Queue]) -> None:
        """Move what comes, from whichever queue, until nothing is left in these. They are consumed for that time."""
        while queues:
            await self.take_from(queues)
            awaited = {await self._mark(queue): queue.name for queue in queues}
            while awaited:
                await self._settle(await _burst(self._arrived, awaited.values()), awaited)
            await self.leave(queues)
            # Every delivery came before the answer to the cancel, and is in `arrived` after one more round trip.
            counted = await look_at_all(self._connection, queues)
            if not self._arrived.empty():
                await self._settle(await _burst(self._arrived, ()), awaited)
            queues = tuple(queue for queue, stands in counted.items() if stands and stands.messages)

    async def _settle(self, batch: Sequence[Taken], awaited: dict[str, str]) -> None:
        await self._move([taken for taken in batch if MARKER not in _headers(taken[1])])
        for _, message in batch:
            await self._taking.basic_ack(message.delivery_tag or 0, wait=False)
            awaited.pop(str(_headers(message).get(MARKER)), None)

    async def _mark(self, queue: Queue) -> str:
        mark = uuid4().hex
        properties = Basic.Properties(
            headers={MARKER: mark},
            delivery_mode=2,
            priority=0,  # the lowest; none at all stands above it on 4.3
            expiration="0" if "x-dead-letter-exchange" in queue.arguments else None,
        )
        await self._giving.basic_publish(
            b"", routing_key=queue.name, properties=properties, mandatory=True, timeout=CONFIRM_TIMEOUT_S
        )
        return mark

    async def _move(self, batch: Sequence[Taken]) -> None:
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
                ),
            )
            for name, message in batch
        ]
        await self._declare({(made.lane, slot) for _, made in moves for slot in made.slots})
        await asyncio.gather(*(_republish(self._giving, message, made) for message, made in moves))
        self.moved.update(name for name, _ in batch)

    async def _declare(self, slots: set[tuple[int, Slot]]) -> None:
        if missing := slots - self._declared:
            lanes = self._new.each_lane
            await apply(self._connection, plan.merged(plan.slot(lanes[lane], *slot) for lane, slot in missing))
            self._declared |= missing


async def _burst(arrived: asyncio.Queue[Taken], awaited: Iterable[str]) -> list[Taken]:
    """What has arrived, at least one, in the order of delivery."""
    try:
        async with asyncio.timeout(SILENCE_S):
            batch = [await arrived.get()]
    except TimeoutError as exc:
        raise TopologyError(f"nothing came for {SILENCE_S:.0f} s, still to be emptied: {', '.join(awaited)}") from exc
    while not arrived.empty():
        batch.append(arrived.get_nowait())
    return batch


async def _republish(giving: aiormq.abc.AbstractChannel, message: aiormq.abc.DeliveredMessage, made: Move) -> None:
    properties = copy.copy(message.header.properties)
    properties.headers = {name: value for name, value in made.headers.items() if name not in _ROUTING_HEADERS}
    properties.delivery_mode = 2
    # The broker refuses a user id that is not the publisher's.
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
    arrived: asyncio.Queue[Taken], name: str
) -> Callable[[aiormq.abc.DeliveredMessage], Coroutine[Any, Any, None]]:
    async def put(message: aiormq.abc.DeliveredMessage) -> None:
        arrived.put_nowait((name, message))

    return put
