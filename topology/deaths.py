"""Reads the headers that the broker adds to a message, and removes them before the next publish.

By these headers the broker sees in which queues a message has expired. It drops or holds back a message that expires
again into one of these queues. RabbitMQ 3.x also believes an `x-death` that a client published
(https://www.rabbitmq.com/docs/dlx#dead-letter-effects). So the bridge never publishes these headers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from topology.names import Names
from topology.wheel import HANDS, parse_key

DEATH_HEADERS: Final = frozenset(
    {
        "x-death",
        *(f"x-{which}-death-{what}" for which in ("first", "last") for what in ("exchange", "queue", "reason")),
    }
)
"""The headers that the broker adds to a dead letter."""

BROKER_HEADERS: Final = DEATH_HEADERS | {"x-delivery-count", "x-acquired-count"}
"""All headers that the broker adds: to a dead letter, and to a redelivered message."""

HOLDING: Final = "x-opt-delivery-time"
"""A header: an instant in Unix ms until which a quorum queue of RabbitMQ 4.4 holds a message. Dead letters keep the
header, so each queue on a copy's way could hold the copy (https://github.com/rabbitmq/rabbitmq-server/pull/16583)."""


@dataclass(frozen=True, kw_only=True)
class Death:
    """One entry of `x-death`: how often (`count`) and for which `reason` a message left a queue.

    `exchange` is the exchange by which the message came to the queue. `original_expiration` is the message's own
    `expiration` in ms, as text, which the broker removed when the message first expired by it. `at_ms` is when the
    message left the queue, in whole seconds of the broker's clock, as Unix ms; None: unknown.
    """

    queue: str
    reason: str
    count: int
    exchange: str
    original_expiration: str | None
    at_ms: int | None = None


def deaths(headers: Mapping[str, Any] | None) -> list[Death]:
    """Returns the entries of `x-death`, the latest first. Skips entries without a queue or a reason, which the broker
    did not write."""
    entries = (headers or {}).get("x-death")
    if not isinstance(entries, list | tuple):
        return []
    return [
        Death(
            queue=_text(entry["queue"]),
            reason=_text(entry["reason"]),
            count=count if isinstance(count := entry.get("count"), int) else 1,
            exchange=_text(entry.get("exchange") or ""),
            original_expiration=_text(expiration) if (expiration := entry.get("original-expiration")) else None,
            at_ms=int(at.timestamp()) * 1_000 if isinstance(at := entry.get("time"), datetime) else None,
        )
        for entry in entries
        if isinstance(entry, Mapping) and "queue" in entry and "reason" in entry
    ]


def latest_death(headers: Mapping[str, Any] | None) -> tuple[str, str] | None:
    """Returns the queue that the message left last, and the reason: the first entry of `x-death`. None: the message has
    left no queue."""
    entries = (headers or {}).get("x-death")
    latest = entries[0] if isinstance(entries, list | tuple) and entries else None
    if not isinstance(latest, Mapping) or "queue" not in latest or "reason" not in latest:
        return None
    return _text(latest["queue"]), _text(latest["reason"])


def strip(headers: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the headers without `BROKER_HEADERS` and `HOLDING`. If they were published, consumers would take them for
    new headers of RabbitMQ. For example, RabbitMQ passes a published `x-delivery-count` on until a delivery fails."""
    return {name: value for name, value in (headers or {}).items() if name not in BROKER_HEADERS and name != HOLDING}


def left_of_key_ms(names: Names, key: str, died: Iterable[Death]) -> int | None:
    """Returns the rest of a wheel key's delay in ms, without the slots from which the message has expired. None: `key`
    is not a wheel key. `died`: the message's entries of `x-death`.

    At the end of a slot the rest is exact. While the message waits in a slot, that slot counts in full. So the rest is
    never too short, and at most one slot too long.
    """
    parsed = parse_key(key)
    if parsed is None:
        return None
    # A message with its own expiration may have left its first slot early, so that slot still counts.
    passed = {death.queue for death in died if death.reason == "expired" and death.original_expiration is None}
    left_ms, rest_ms = 0, parsed.delay_ms
    for hand in HANDS:
        value, rest_ms = divmod(rest_ms, hand.unit_ms)
        if value and names.slot(hand.name, value) not in passed:
            left_ms += value * hand.unit_ms
    return left_ms


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes | bytearray) else str(value)
