"""Moves all messages from one set of names to another, for a change of arguments or for fewer lanes.

    1. declare the new core, unbind the old slots
    2. publish a marker to each old slot, move messages until all markers have come, then delete the slots and the old
       exchanges, except those of the checkpoint and of returned messages
    3. do step 2 with acks, refused, unroutable, the ingress, and the ready and dead queues whose names change
    4. do step 2 with the checkpoint, and delete the rest

A queue is empty if two conditions hold. A marker that was published behind all messages has come. Then, without the
drain's own consumer, the broker counts no message in the queue. Neither condition is enough alone. A marker may
overtake messages of another priority (4.0 and later). A count leaves out dead letters in flight. In a queue that
dead-letters, the marker expires at the head, so it follows those dead letters through the checkpoint.

The drain publishes each message and waits for the confirm before it acknowledges the old copy. It deletes no queue
before its marker has come. An interrupted drain loses nothing and can be run again; it may deliver a message that was
in flight twice.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from topology import plan
from topology.channels import look_at_all
from topology.closing import closed_at_end
from topology.connect import PikaConnection
from topology.declare import apply, remove
from topology.errors import TopologyError
from topology.former import FormerNames
from topology.mover import Mover
from topology.names import Names
from topology.plan import Plan, Queue

PREFETCH: Final = 50


@dataclass(frozen=True, kw_only=True)
class Drained:
    """The result of a drain. `moved`: how many messages left each old queue, by the queue's name."""

    moved: Mapping[str, int]


async def drain(
    connection: PikaConnection,
    old: Names,
    new: Names,
    *,
    topics: Iterable[str] = (),
    timeout_s: float | None = None,
    moved: Counter[str] | None = None,
) -> Drained:
    """Moves all messages from the old names to the new names, deletes the objects that only the old names have, and
    returns the counts. If the prefix differs, these are all objects under the old prefix; otherwise they are the lanes
    that the new names lack. The old slots may have the names that earlier versions gave them.

    A waiting message waits for the rest of its delay. Ready and dead queues stay as they are if old and new names give
    them the same name. If their names differ, the messages of `topics` move to queues that the caller has declared;
    `topics` must list all topics. Stop the bridges and consumers of the old names before the drain. Bridges and
    consumers of the new names may run. `moved`: counts the moved messages by old queue while the drain runs; None: a
    new counter.

    Raises:
        TopologyError: an old queue has a consumer, the broker refuses something, or no message came for 60 s from a
            queue that is not empty.
        TimeoutError: not done within `timeout_s`.
        ValueError: the old and the new names are the same.
        Exception: the errors of aio-pika if the connection is lost.
    """
    if old == new:
        raise ValueError(f"there is nothing to drain: the old and the new names are the same, {old}")
    topics = tuple(topics)
    moved = Counter() if moved is None else moved
    leaving = plan.whole(old, checked=topics)
    async with asyncio.timeout(timeout_s):
        await apply(connection, plan.core(new))
        if any((await look_at_all(connection, leaving.barring)).values()):
            leaving += plan.slots(FormerNames.of(old))
        leaving = _only_in(leaving, plan.whole(new, checked=topics))
        queues = await _unconsumed(connection, leaving.queues)
        slots = tuple(queue for queue in queues if "x-message-ttl" in queue.arguments)
        checkpoints = {lane.checkpoint for lane in old.each_lane}
        checkpoint = tuple(queue for queue in queues if queue.name in checkpoints)
        probes = tuple(queue for queue in queues if queue.name in old.probes)
        others = tuple(queue for queue in queues if queue not in slots + checkpoint + probes)
        last = {*checkpoints, old.returned}
        before = tuple(exchange for exchange in leaving.exchanges if exchange.name not in last)

        await remove(connection, Plan(bindings=leaving.bindings))
        async with (
            closed_at_end(await connection.open_channel()) as taking,
            closed_at_end(await connection.open_channel(confirms=True)) as giving,
        ):
            mover = Mover(connection, taking, giving, old=old, new=new, moved=moved)
            await taking.basic_qos(prefetch_count=PREFETCH)
            await mover.take_from(checkpoint)
            # Twice: a message between two slots while their bindings were removed may arrive after the first round.
            await mover.empty(slots)
            await mover.empty(slots)
            await remove(connection, Plan(queues=slots, exchanges=before))
            await mover.empty(others)
            await remove(connection, Plan(queues=others + probes))
            await mover.leave(checkpoint)
            await mover.empty(checkpoint)
            await remove(connection, Plan(queues=checkpoint, exchanges=leaving.exchanges))
    return Drained(moved=dict(moved))


def _only_in(old: Plan, new: Plan) -> Plan:
    """Returns the objects that the drain removes: the exchanges and queues that the new plan lacks, and bindings.

    The drain removes these bindings before the first move. Each of them fills a removed slot, or the new plan lacks the
    binding but keeps its source exchange."""
    staying_exchanges = {exchange.name for exchange in new.exchanges}
    staying_queues = {queue.name for queue in new.every_queue}
    exchanges = tuple(exchange for exchange in old.exchanges if exchange.name not in staying_exchanges)
    queues = tuple(queue for queue in old.every_queue if queue.name not in staying_queues)
    slots = {queue.name for queue in queues if "x-message-ttl" in queue.arguments}
    bindings = tuple(
        binding
        for binding in old.bindings
        if binding.destination in slots or (binding.source in staying_exchanges and binding not in new.bindings)
    )
    return Plan(exchanges=exchanges, queues=queues, bindings=bindings)


async def _unconsumed(connection: PikaConnection, queues: Sequence[Queue]) -> tuple[Queue, ...]:
    """Returns the given queues that exist.

    Raises:
        TopologyError: queues have consumers; the text names these queues.
    """
    existing = {queue: state for queue, state in (await look_at_all(connection, queues)).items() if state}
    if consumed := [queue.name for queue, state in existing.items() if state.consumers]:
        raise TopologyError(
            "these queues still have consumers; stop the bridges and consumers of the old names first:"
            f" {', '.join(consumed)}"
        )
    return tuple(existing)
