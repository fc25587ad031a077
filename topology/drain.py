"""Moving everything from one set of names to another, for a change of arguments or for fewer lanes.

    declare the new core, unbind the old slots
    a marker into each old slot, move until all have come           delete the slots and the exchanges before them
    the same with acks, refused, and the ready and dead queues that do not stay
    the same with the checkpoint, and delete the rest

How it is known that a queue is empty: a marker put behind everything else has come, and then, with our consumer gone
from it, the broker counts no message in it. Neither does alone. A marker may overtake messages of another priority
(4.0 and later). A count leaves out the dead letters that are on their way; but a marker in a queue that dead-letters
expires when it is at the head, and comes behind them through the checkpoint.

Each message is published and confirmed before its old copy is acked, and no queue is deleted before its marker has
come. A drain that is broken off has lost nothing and can be run again; a message it had under way may come twice.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aio_pika.abc import AbstractConnection

from topology import plan
from topology.channels import look_at_all, plain_channel
from topology.declare import apply, remove
from topology.errors import TopologyError
from topology.mover import Mover
from topology.names import Names
from topology.plan import Plan, Queue

PREFETCH: Final = 50


@dataclass(frozen=True, kw_only=True)
class Drained:
    """How many messages were moved, by the old queue they were taken from."""

    moved: Mapping[str, int]


async def drain(
    connection: AbstractConnection,
    old: Names,
    new: Names,
    *,
    topics: Iterable[str] = (),
    timeout_s: float | None = None,
) -> Drained:
    """Move all messages from the old names to the new ones, and take off the broker what only the old names have: all
    of another prefix, of the same one the lanes that the new names lack.

    What waits goes on waiting for what is left of its delay. Ready and dead queues stay where they are unless their
    names differ: then those of `topics`, which must be all there are, are moved to queues the caller has declared.
    Stop the bridges and consumers of the old names first; those of the new names may run.

    TopologyError: an old queue is being consumed, or the broker refuses something. TimeoutError: not done within
    `timeout_s`; the broker's own errors when the connection is lost. ValueError: both names are the same.
    """
    if old == new:
        raise ValueError(f"nothing to drain: the old names are the new ones, {old}")
    topics = tuple(topics)
    leaving = _only_in(plan.whole(old, checked=topics), plan.whole(new, checked=topics))
    async with asyncio.timeout(timeout_s):
        await apply(connection, plan.core(new))
        standing = await _standing(connection, leaving.queues)
        slots = tuple(queue for queue in standing if "x-message-ttl" in queue.arguments)
        checkpoints = {lane.checkpoint for lane in old.each_lane}
        checkpoint = tuple(queue for queue in standing if queue.name in checkpoints)
        others = tuple(queue for queue in standing if queue not in slots + checkpoint)
        last = {*checkpoints, old.returned}
        before = tuple(exchange for exchange in leaving.exchanges if exchange.name not in last)

        await remove(connection, Plan(bindings=leaving.bindings))
        async with plain_channel(connection) as taking, plain_channel(connection, confirms=True) as giving:
            mover = Mover(connection, taking, giving, old=old, new=new)
            await taking.basic_qos(prefetch_count=PREFETCH)
            await mover.take_from(checkpoint)
            # Twice: what was between two slots when their bindings went may have come in behind the first look.
            await mover.empty(slots)
            await mover.empty(slots)
            await remove(connection, Plan(queues=slots, exchanges=before))
            await mover.empty(others)
            await remove(connection, Plan(queues=others))
            await mover.leave(checkpoint)
            await mover.empty(checkpoint)
            await remove(connection, Plan(queues=checkpoint, exchanges=leaving.exchanges))
    return Drained(moved=dict(mover.moved))


def _only_in(old: Plan, new: Plan) -> Plan:
    """The exchanges and queues the new plan lacks, and the bindings to undo before anything is moved: all that fill a
    slot, and all by which something that stays feeds something that goes."""
    stays = {exchange.name for exchange in new.exchanges}, {queue.name for queue in new.queues}
    exchanges = tuple(exchange for exchange in old.exchanges if exchange.name not in stays[0])
    queues = tuple(queue for queue in old.queues if queue.name not in stays[1])
    slots = {queue.name for queue in queues if "x-message-ttl" in queue.arguments}
    bindings = tuple(
        binding
        for binding in old.bindings
        if binding.destination in slots or (binding.source in stays[0] and binding not in new.bindings)
    )
    return Plan(exchanges=exchanges, queues=queues, bindings=bindings)


async def _standing(connection: AbstractConnection, queues: Sequence[Queue]) -> tuple[Queue, ...]:
    found = {queue: stands for queue, stands in (await look_at_all(connection, queues)).items() if stands}
    if busy := [queue.name for queue, stands in found.items() if stands.consumers]:
        raise TopologyError(f"still being consumed, stop that first: {', '.join(busy)}")
    return tuple(found)
