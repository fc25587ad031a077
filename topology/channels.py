"""Channels for work on the topology.

They are plain channels also on a robust connection: a robust channel declares again what an operator has deleted, and
a refused declare closes the channel it was made on.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

import aio_pika
import aiormq.abc
from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import ChannelNotFoundEntity

from topology.names import MOST_LANES, Names
from topology.plan import Exchange, Queue

Item = TypeVar("Item")
Looked = TypeVar("Looked", bound=Exchange | Queue)

CHANNELS = 8
"""Channels at once. A quorum queue is declared in 10-50 ms, most of it waiting for disks."""


@asynccontextmanager
async def plain_channel(
    connection: AbstractConnection, *, confirms: bool = False
) -> AsyncIterator[aiormq.abc.AbstractChannel]:
    """A channel of its own, closed at the end. With `confirms` a publish waits for the broker's confirm, and raises
    when it is refused or returned as unroutable."""
    channel = aio_pika.Channel(connection, publisher_confirms=confirms, on_return_raises=confirms)
    await channel.initialize()
    try:
        yield await channel.get_underlay_channel()
    finally:
        await channel.close()


async def on_channels(
    connection: AbstractConnection,
    items: Iterable[Item],
    do: Callable[[aiormq.abc.AbstractChannel, Item], Awaitable[None]],
    channels: int = CHANNELS,
) -> None:
    """Do one thing with each item, on a few channels at once. The first failure is raised when what was under way is
    over; the rest is not begun."""
    waiting = deque(items)

    async def one() -> None:
        async with plain_channel(connection) as channel:
            try:
                while waiting:
                    await do(channel, waiting.popleft())
            except BaseException:
                waiting.clear()
                raise

    results = await asyncio.gather(*(one() for _ in range(min(channels, len(waiting)))), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What a passive declare tells of a queue: messages that wait (not those delivered and unacked), and consumers."""

    messages: int = 0
    consumers: int = 0


async def look(connection: AbstractConnection, item: Exchange | Queue) -> Standing | None:
    """What stands under the name; None when nothing does. Changes nothing."""
    # A passive declare that finds nothing closes its channel, so each has its own.
    async with plain_channel(connection) as channel:
        try:
            return await _look(channel, item)
        except ChannelNotFoundEntity:
            return None


async def _look(channel: aiormq.abc.AbstractChannel, item: Exchange | Queue) -> Standing:
    if isinstance(item, Exchange):
        await channel.exchange_declare(item.name, passive=True)
        return Standing()
    found = await channel.queue_declare(item.name, passive=True)
    return Standing(messages=found.message_count or 0, consumers=found.consumer_count or 0)


async def look_at_all(connection: AbstractConnection, items: Iterable[Looked]) -> dict[Looked, Standing | None]:
    """`look` at each, a few at once; in the order they were given."""
    items = tuple(items)
    waiting = deque(items)
    found: dict[Looked, Standing | None] = {}

    async def one() -> None:
        while waiting:
            with suppress(ChannelNotFoundEntity):
                async with plain_channel(connection) as channel:
                    # One channel for all that stand: opening it costs more than a look.
                    while waiting:
                        item = waiting.popleft()
                        found[item] = None
                        found[item] = await _look(channel, item)

    await asyncio.gather(*(one() for _ in range(min(CHANNELS, len(waiting)))))
    return {item: found[item] for item in items}


async def with_lanes_found(connection: AbstractConnection, names: Names) -> Names:
    """The names with all lanes of their prefix that stand: their own, and those that a larger number has left behind.

    A lane stands where its checkpoint queue does. They are made and taken off in order, so the first that is missing
    ends the search.
    """
    more = names.lanes
    while more < MOST_LANES:
        if await look(connection, Queue(name=names.in_lane(more).checkpoint, arguments={})) is None:
            break
        more += 1
    return replace(names, lanes=more)
