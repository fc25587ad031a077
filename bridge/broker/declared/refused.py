"""Reads why messages are in `delay.refused`."""

from __future__ import annotations

from typing import Final

from bridge.broker.client.connection import BrokerConnection, translated
from bridge.model.errors import BrokerUnavailable, QueueMissing

_LIMIT_S: Final = 5.0
_MOST_CHARACTERS: Final = 300


async def oldest_reason(connection: BrokerConnection, queue: str) -> str | None:
    """Returns why a bridge put the queue's oldest message aside: its header `x-delay-reason`, or `none` without this
    header. Returns `not readable` if RabbitMQ does not give the message. The message stays in the queue. None: the
    queue is empty or missing.

    Raises:
        BrokerUnavailable: RabbitMQ is away, or does not answer in time.
    """
    channel = await connection.channel()
    try:
        async with translated(_LIMIT_S):
            if not await channel.depth(queue):
                return None
        try:
            async with translated(_LIMIT_S):
                delivery, _ = await channel.get(queue)
        except BrokerUnavailable:
            return "not readable"  # perhaps the bridge's user has no right to read this queue
    except QueueMissing:
        return None
    finally:
        if channel.is_open:
            async with translated(_LIMIT_S):
                await channel.close()  # which requeues the message
    if delivery is None:
        return None
    headers = delivery.properties.headers or {}
    return str(headers.get("x-delay-reason", "none"))[:_MOST_CHARACTERS]
