"""Compares the slots of RabbitMQ with the messages that wait.

A slot's length says little about messages. A bundle counts as one, and the length includes ghosts and lease copies. A
copy stays in its slot while less and less of its delay is left. Redis knows when each message is due. So this module
counts each message at one slot, by the rest of the message's delay. This slot has the longest wait that is not longer
than the rest. Overdue messages, and messages that are due before the shortest wait has passed, are counted separately.
All these counts add up to the waiting messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridge.service.context import Context


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot, in all lanes together. `wait_ms`: how long a copy waits in the slot. `in_rabbitmq`: the length of its
    queues. `messages`: how many messages have at least `wait_ms` left, and less than the next longer slot's wait."""

    pool: str
    name: str
    wait_ms: int
    in_rabbitmq: int
    messages: int


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of one pool, the shortest wait first. `overdue`: how many waiting messages are past due. `soon`: how
    many are due before the shortest wait has passed. `in_checkpoint`: the length of the checkpoint's queues
    together."""

    slots: Sequence[Slot]
    overdue: int
    soon: int
    in_checkpoint: int


async def slots_of(context: Context) -> Slots:
    """Returns the slots of a pool. Asks RabbitMQ and Redis now.

    Raises:
        Unavailable: RabbitMQ or Redis is away.
    """
    depths = await context.broker.slot_depths()
    checkpoint = (await context.broker.depths()).get("checkpoint", 0)
    waits_ms = tuple(wait_ms for wait_ms, _ in depths.values())
    counted = await context.topics.counted(waits_ms)
    columns = [sum(column) for column in zip(*(counts.by_due for counts, _ in counted.values()), strict=True)]
    overdue, soon, *messages = columns or [0] * (len(waits_ms) + 2)
    slots = [
        Slot(context.pool, name, wait_ms, length, waiting)
        for (name, (wait_ms, length)), waiting in zip(depths.items(), messages, strict=True)
    ]
    return Slots(slots, overdue, soon, checkpoint)
