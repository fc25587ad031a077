"""Where a message of an old prefix goes under a new one. Pure: `drain` does what is decided here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from topology.deaths import deaths, left_of_key_ms, strip
from topology.names import Names
from topology.wheel import MAX_DELAY_MS, Slot, ceil_to_tenth, parse_key, route

DUE_HEADER: Final = "x-delay-due"
"""When the message is due, in Unix ms. It is newer than the routing key for a copy that has been sent on."""


@dataclass(frozen=True, kw_only=True)
class Move:
    """What to publish instead of the old copy. `slots`, of the new `lane`, must stand before it. `keeps_expiration`:
    its own TTL goes with it, from the start again; in the wheel there is none."""

    exchange: str
    routing_key: str
    headers: Mapping[str, Any]
    lane: int = 0
    slots: tuple[Slot, ...] = ()
    keeps_expiration: bool = False


def move(
    old: Names,
    new: Names,
    *,
    queue: str,
    key: str,
    headers: Mapping[str, Any] | None,
    now_ms: int,
    message_id: str | None = None,
) -> Move:
    """The move for a message taken from an old queue, with the routing key and the headers it has there.

    What waits, or is due, goes into the new wheel, in the lane of its id, for what is left of its delay, rounded up.
    What came back from a ready queue keeps its headers, which say why; so does what is no wheel key: the new checkpoint
    judges it.
    """
    plain = strip(headers)
    if queue == old.acks:
        return Move(exchange=new.acks, routing_key=key, headers=plain)
    if queue == old.refused:
        return Move(exchange="", routing_key=new.refused, headers=dict(headers or {}))
    if topic := old.topic_of_ready_queue(queue):
        return Move(exchange="", routing_key=new.ready_queue(topic), headers=plain, keeps_expiration=True)
    if topic := old.topic_of_dead_queue(queue):
        return Move(exchange="", routing_key=new.dead_queue(topic), headers=plain)
    died = deaths(headers)
    parsed = parse_key(key)
    left_ms = left_of_key_ms(old.lane_with(queue), key, died)
    returned = bool(died) and old.topic_of_ready_queue(died[0].queue) is not None
    if returned or parsed is None or left_ms is None:
        return Move(exchange=new.checkpoint, routing_key=key, headers=dict(headers or {}))
    due_ms = plain.get(DUE_HEADER)
    if isinstance(due_ms, int):
        left_ms = due_ms - now_ms
    lane = new.lane_for(message_id or "")
    taken = route(lane, min(ceil_to_tenth(left_ms), MAX_DELAY_MS), parsed.topic, parsed.kind)
    return Move(
        exchange=taken.exchange, routing_key=taken.routing_key, headers=plain, lane=lane.lane, slots=taken.slots
    )
