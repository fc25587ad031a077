"""What the broker writes into the headers of a message: reading it, and taking it out before the next publish.

The broker drops or holds back a message that expires into a queue it has expired from before, and 3.x takes that from
the `x-death` a client published (https://www.rabbitmq.com/docs/dlx#dead-letter-effects). So nothing is published
again with these headers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from topology.names import Names
from topology.wheel import HANDS, parse_key

DEATH_HEADERS: Final = frozenset(
    {
        "x-death",
        *(f"x-{which}-death-{what}" for which in ("first", "last") for what in ("exchange", "queue", "reason")),
    }
)
"""The headers the broker adds to a dead letter."""

BROKER_HEADERS: Final = DEATH_HEADERS | {"x-delivery-count", "x-acquired-count"}
"""All the broker adds: to a dead letter, and to what it delivers again."""


@dataclass(frozen=True, kw_only=True)
class Death:
    """One entry of `x-death`: how often (`count`) and why a message left a queue. The latest death comes first.

    `exchange` and `routing_keys` are what it had been published with, `original_expiration` the `expiration` in ms
    (as text) that was taken off it when it first expired by its own.
    """

    queue: str
    reason: str
    count: int
    exchange: str
    routing_keys: tuple[str, ...]
    original_expiration: str | None


def deaths(headers: Mapping[str, Any] | None) -> list[Death]:
    """The deaths a message has died, the latest first. Entries that are not the broker's (no queue, no reason) are
    passed over."""
    entries = (headers or {}).get("x-death")
    if not isinstance(entries, list | tuple):
        return []
    return [
        Death(
            queue=_text(entry["queue"]),
            reason=_text(entry["reason"]),
            count=count if isinstance(count := entry.get("count"), int) else 1,
            exchange=_text(entry.get("exchange") or ""),
            routing_keys=tuple(_text(key) for key in keys)
            if isinstance(keys := entry.get("routing-keys"), list)
            else (),
            original_expiration=_text(expiration) if (expiration := entry.get("original-expiration")) else None,
        )
        for entry in entries
        if isinstance(entry, Mapping) and "queue" in entry and "reason" in entry
    ]


def latest_death(headers: Mapping[str, Any] | None) -> tuple[str, str] | None:
    """The queue a message left last, and why: the first of `deaths`, without reading the others. None: it left none."""
    entries = (headers or {}).get("x-death")
    latest = entries[0] if isinstance(entries, list | tuple) and entries else None
    if not isinstance(latest, Mapping) or "queue" not in latest or "reason" not in latest:
        return None
    return _text(latest["queue"]), _text(latest["reason"])


def strip(headers: Mapping[str, Any] | None) -> dict[str, Any]:
    """The headers without what the broker added. A count that is published again would be read as the new copy's."""
    return {name: value for name, value in (headers or {}).items() if name not in BROKER_HEADERS}


def left_of_key_ms(names: Names, key: str, died: Iterable[Death]) -> int | None:
    """What is left, in ms, of the delay a wheel key says, after the slots the message has expired from.

    Exact at the end of a slot. Inside one, the slot it waits in counts in full: the answer is at most that much too
    long, never too short. None: not a wheel key.
    """
    parsed = parse_key(key)
    if parsed is None:
        return None
    # A message that brought an expiration of its own may have left its first slot early: that slot counts as ahead.
    gone = {death.queue for death in died if death.reason == "expired" and death.original_expiration is None}
    left_ms, rest_ms = 0, parsed.delay_ms
    for hand in HANDS:
        value, rest_ms = divmod(rest_ms, hand.unit_ms)
        if value and names.slot(hand.name, value) not in gone:
            left_ms += value * hand.unit_ms
    return left_ms


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes | bytearray) else str(value)
