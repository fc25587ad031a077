"""Compares the slots of RabbitMQ with the messages that wait.

A slot's length says little about messages: a bundle counts as one, ghosts and leases count too, and a copy stays in its
slot while less and less of its delay is left. Redis knows when each message is due. So each message is counted at the
slot whose wait is the longest that still fits what is left of its delay. These counts add up to all waiting messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridge.model.values import Release
from bridge.service.context import Context


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot, in all lanes together. `wait_ms`: how long a copy waits in it. `in_rabbitmq`: its length. `messages`:
    those with at least `wait_ms` left, and less than the wait of the next longer slot."""

    pool: str
    name: str
    wait_ms: int
    in_rabbitmq: int
    messages: int


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of one pool, the shortest wait first. `overdue`: waiting messages that are past due. `soon`: those due
    before the shortest wait has passed. `in_checkpoint`: messages in
    the queues of the checkpoint."""

    slots: Sequence[Slot]
    overdue: int
    soon: int
    in_checkpoint: int


async def slots_of(context: Context) -> Slots:
    """Asks RabbitMQ and Redis for the slots of a pool.

    Raises:
        Unavailable
    """
    depths = await context.broker.slot_depths()
    checkpoint = (await context.broker.depths()).get("checkpoint", 0)
    waits_ms = tuple(wait_ms for wait_ms, _ in depths.values())
    counted = await context.topics.counted(waits_ms)
    # On direct release RabbitMQ has made messages ready that are due, and no bridge updates their records.
    rows = [
        [0 if policy.release is Release.DIRECT else counts.by_due[0], *counts.by_due[1:]]
        for counts, policy in counted.values()
    ]
    columns = [sum(column) for column in zip(*rows, strict=True)]
    overdue, soon, *messages = columns or [0] * (len(waits_ms) + 2)
    slots = [
        Slot(context.pool, name, wait_ms, length, waiting)
        for (name, (wait_ms, length)), waiting in zip(depths.items(), messages, strict=True)
    ]
    return Slots(slots, overdue, soon, checkpoint)
