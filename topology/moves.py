"""Decides where a drained message goes under the new names. Pure; `mover` carries it out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from topology.deaths import deaths, left_of_key_ms, strip
from topology.former import FormerNames
from topology.names import Names
from topology.wheel import MAX_DELAY_MS, Slot, ceil_to_tenth, parse_key, route

DUE_HEADER: Final = "x-delay-due"
"""A header: when the message is due, in Unix ms. If a copy was published again, the header is newer than the routing
key."""


@dataclass(frozen=True, kw_only=True)
class Move:
    """The message to publish in place of the old copy. The caller must first declare `slots` of the new `lane`.
    `keeps_expiration`: the new message gets the old one's TTL in full. A copy in the wheel has no TTL."""

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
    exchange: str = "",
) -> Move:
    """Returns the move for a message from the old queue `queue`, with the routing key `key` and these headers.
    `exchange`: the exchange from which the message came to the queue. `now_ms`: the present moment in Unix ms.
    `message_id`: selects the new lane; None: as an empty id.

    A waiting or due message goes into the new wheel, in the lane of its id. It waits there for the rest of its delay,
    rounded up to a tenth of a second. A message that a ready queue returned goes to the new checkpoint with all its
    headers, which say why it was returned. A message without a wheel key also goes there with all its headers.

    A message that the ingress queue has dead-lettered goes to the new ingress exchange. A message of the acks, refused,
    unroutable, ingress, ready or dead queue goes to the new queue of the same kind.
    """
    plain = strip(headers)
    if queue == old.acks:
        return Move(exchange=new.acks, routing_key=key, headers=plain)
    if queue == old.refused:
        return Move(exchange="", routing_key=new.refused, headers=dict(headers or {}))
    if queue == old.unroutable:
        return Move(exchange="", routing_key=new.unroutable, headers=plain)
    if queue == old.ingress:
        return _into_ingress(old, new, exchange, key, plain)
    if topic := old.topic_of_ready_queue(queue):
        return Move(exchange="", routing_key=new.ready_queue(topic), headers=plain, keeps_expiration=True)
    if topic := old.topic_of_dead_queue(queue):
        return Move(exchange="", routing_key=new.dead_queue(topic), headers=plain)
    died = deaths(headers)
    parsed = parse_key(key)
    lane = old.lane_with(queue)
    # Under the names of another version no slot counts as passed, which makes the rest too long.
    left_ms = min(left_of_key_ms(names, key, died) or 0 for names in (lane, FormerNames.of(lane)))
    if died and died[0].queue == old.ingress:
        return _into_ingress(old, new, died[0].exchange, key, plain)
    returned = bool(died) and old.topic_of_ready_queue(died[0].queue) is not None
    if returned or parsed is None:
        return Move(exchange=new.checkpoint, routing_key=key, headers=dict(headers or {}))
    due_ms = plain.get(DUE_HEADER)
    if isinstance(due_ms, int):
        left_ms = due_ms - now_ms
    new_lane = new.lane_for(message_id or "")
    entry = route(new_lane, min(ceil_to_tenth(left_ms), MAX_DELAY_MS), parsed.topic, parsed.kind)
    return Move(
        exchange=entry.exchange, routing_key=entry.routing_key, headers=plain, lane=new_lane.lane, slots=entry.slots
    )


def _into_ingress(old: Names, new: Names, exchange: str, key: str, headers: dict[str, Any]) -> Move:
    """Returns the move for a message whose delay is in a header. Under the new names, the ingress exchange of its
    target may not be declared yet. So the message goes to the common ingress, and names its target in headers."""
    target = old.delayed_exchange(exchange)
    if target is None:
        return Move(exchange=new.ingress, routing_key=key, headers=headers, keeps_expiration=True)
    headers |= {"x-delay-exchange": target, "x-delay-routing-key": key}
    topic = new.topic_of_exchange(target)
    return Move(exchange=new.ingress, routing_key=topic, headers=headers, keeps_expiration=True)
