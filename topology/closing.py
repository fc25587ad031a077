"""Closes channels completely, even if the caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol, TypeVar


class Closable(Protocol):
    """A channel of AMQP that can be closed."""

    async def close(self) -> None: ...


Closing = TypeVar("Closing", bound=Closable)

_under_way: Final[set[asyncio.Task[None]]] = set()  # asyncio itself keeps no task alive


async def close_channel(channel: Closable) -> None:
    """Closes a channel, even if the caller is cancelled or runs out of time before the channel is closed.

    aiormq writes a second Channel.Close when the first is cancelled. If RabbitMQ has executed the first one, it closes
    the whole connection (504, expected 'channel.open').
    """
    closing = asyncio.create_task(channel.close())
    _under_way.add(closing)
    closing.add_done_callback(_ended)
    await asyncio.shield(closing)


@asynccontextmanager
async def closed_at_end(channel: Closing) -> AsyncIterator[Closing]:
    """Yields the channel, and closes it at the end of the context."""
    try:
        yield channel
    finally:
        await close_channel(channel)


def _ended(closing: asyncio.Task[None]) -> None:
    _under_way.discard(closing)
    if not closing.cancelled():
        closing.exception()  # marks it as retrieved: asyncio logs errors for which no caller waits any more
