"""Opens channels for work on the topology, and looks up what exists on the broker.

The channels are plain, even on a robust connection: a robust channel would declare again the objects that an operator
deleted. A refused declare closes its channel.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

import aiormq
import aiormq.abc
from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import ChannelInvalidStateError, ChannelNotFoundEntity

from topology.closing import close_channel
from topology.names import MOST_LANES, Names
from topology.plan import Exchange, Queue

Item = TypeVar("Item")
Object = TypeVar("Object", bound=Exchange | Queue)

CHANNELS = 8
"""How many channels work at the same time. Declaring a quorum queue takes 10-50 ms, mostly for disks."""
# How many frames of a connection may wait to be written. aiormq 7.2 has room for 10. Without room it drops the Close-Ok
# of a channel that the broker closed. For the broker that channel is then open, and the next use of its number ends the
# connection (504, second 'channel.open' seen). Each of 65,535 channels has at most a call and a Close-Ok.
aiormq.Connection.FRAME_BUFFER_SIZE = 2 * 65_535


async def open_channel(connection: AbstractConnection, *, confirms: bool = False) -> aiormq.abc.AbstractChannel:
    """Opens a channel of aiormq. With `confirms` it is a channel for publishing, as in `plain_channel`.

    aio-pika's channel would leak 3 KB for each closed channel: a callback, with a task, stays on the connection.
    aio-pika removes that callback from another future, because aiormq 7.2 makes a new future for each reader of
    `closing`.
    """
    if connection.transport is None:
        raise ChannelInvalidStateError("the connection is closed")
    try:
        return await connection.transport.connection.channel(publisher_confirms=confirms, on_return_raises=confirms)
    except RuntimeError as error:
        # aiormq raises only this error for a connection that was lost a moment ago.
        raise ChannelInvalidStateError(str(error)) from error


@asynccontextmanager
async def plain_channel(
    connection: AbstractConnection, *, confirms: bool = False
) -> AsyncIterator[aiormq.abc.AbstractChannel]:
    """Opens a channel and closes it at the end. With `confirms` a publish waits for the publisher confirm, and raises
    if the broker refuses the message or returns it as unroutable."""
    channel = await open_channel(connection, confirms=confirms)
    try:
        yield channel
    finally:
        await close_channel(channel)


async def on_channels(
    connection: AbstractConnection,
    items: Iterable[Item],
    do: Callable[[aiormq.abc.AbstractChannel, Item], Awaitable[None]],
    channels: int = CHANNELS,
) -> None:
    """Calls `do` for each item, on several channels at the same time. After a failure it begins no further item, and
    raises the first failure once the calls in flight have ended."""
    waiting = deque(items)

    async def work() -> None:
        async with plain_channel(connection) as channel:
            try:
                while waiting:
                    await do(channel, waiting.popleft())
            except BaseException:
                waiting.clear()
                raise

    results = await asyncio.gather(*(work() for _ in range(min(channels, len(waiting)))), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


@dataclass(frozen=True, kw_only=True)
class Existing:
    """The answer to a passive declare of an existing object. For a queue: how many consumers it has, and how many ready
    messages, without the delivered and unacknowledged ones."""

    messages: int = 0
    consumers: int = 0


async def look(connection: AbstractConnection, item: Exchange | Queue) -> Existing | None:
    """Looks up an object by its name. Changes nothing. None: the object does not exist."""
    # A passive declare of a missing object closes its channel, so each look-up has its own channel.
    async with plain_channel(connection) as channel:
        try:
            return await _look(channel, item)
        except ChannelNotFoundEntity:
            return None


async def _look(channel: aiormq.abc.AbstractChannel, item: Exchange | Queue) -> Existing:
    if isinstance(item, Exchange):
        await channel.exchange_declare(item.name, passive=True)
        return Existing()
    answer = await channel.queue_declare(item.name, passive=True)
    return Existing(messages=answer.message_count or 0, consumers=answer.consumer_count or 0)


async def look_at_all(connection: AbstractConnection, items: Iterable[Object]) -> dict[Object, Existing | None]:
    """Looks up each object as `look` does, several at the same time. Returns the answers in the order of `items`."""
    items = tuple(items)
    waiting = deque(items)
    existing: dict[Object, Existing | None] = {}

    async def work() -> None:
        while waiting:
            with suppress(ChannelNotFoundEntity):
                async with plain_channel(connection) as channel:
                    # One channel serves until an object is missing: opening a channel costs more than a look-up.
                    while waiting:
                        item = waiting.popleft()
                        existing[item] = None
                        existing[item] = await _look(channel, item)

    await asyncio.gather(*(work() for _ in range(min(CHANNELS, len(waiting)))))
    return {item: existing[item] for item in items}


async def with_lanes_found(connection: AbstractConnection, names: Names) -> Names:
    """Returns the names with all lanes that exist under the prefix: the names' own lanes, and lanes left from a larger
    number of lanes.

    A lane exists if its checkpoint queue exists. Lanes are declared and deleted in order, so the search ends at the
    first missing lane.
    """
    lanes = names.lanes
    while lanes < MOST_LANES:
        if await look(connection, Queue(name=names.in_lane(lanes).checkpoint, arguments={})) is None:
            break
        lanes += 1
    return replace(names, lanes=lanes)
