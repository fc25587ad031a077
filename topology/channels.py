"""Opens channels for work on the topology, and looks up what exists on the broker.

A refused declare closes its channel.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from aio_pika.exceptions import ChannelNotFoundEntity
from pamqp import commands

from topology.closing import closed_at_end
from topology.connection import Channel, Connection
from topology.names import MOST_LANES, Names
from topology.plan import Exchange, Queue

Item = TypeVar("Item")
Object = TypeVar("Object", bound=Exchange | Queue)

CHANNELS = 8
"""How many channels work at the same time. Declaring a quorum queue takes 10-50 ms, mostly for disks."""


@asynccontextmanager
async def plain_channel(connection: Connection) -> AsyncIterator[Channel]:
    """Yields a new channel, and closes it at the end of the context."""
    async with closed_at_end(await connection.open_channel()) as channel:
        yield channel


async def on_channels(
    connection: Connection,
    items: Iterable[Item],
    do: Callable[[Channel, Item], Awaitable[None]],
    channels: int = CHANNELS,
) -> None:
    """Calls `do` for each item, on several channels at the same time. After a failure it begins no further item, and
    raises one of the failures once the calls in flight have ended."""
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
    """The answer to a passive declare of an existing object. For a queue: how many consumers and how many ready
    messages it has. Unacknowledged messages do not count as ready."""

    messages: int = 0
    consumers: int = 0


async def look(connection: Connection, item: Exchange | Queue) -> Existing | None:
    """Returns the answer to a passive declare of the object with this name. None: the object does not exist. Changes
    nothing."""
    # A passive declare of a missing object closes its channel, so each look-up has its own channel.
    async with plain_channel(connection) as channel:
        try:
            return await _look(channel, item)
        except ChannelNotFoundEntity:
            return None


async def _look(channel: Channel, item: Exchange | Queue) -> Existing:
    match item:
        case Exchange():
            await channel.rpc(commands.Exchange.Declare(exchange=item.name, passive=True))
        case Queue():
            answer = await channel.rpc(commands.Queue.Declare(queue=item.name, passive=True))
            if isinstance(answer, commands.Queue.DeclareOk):
                return Existing(messages=answer.message_count or 0, consumers=answer.consumer_count or 0)
    return Existing()


async def look_at_all(connection: Connection, items: Iterable[Object]) -> dict[Object, Existing | None]:
    """Looks up several objects at the same time, by their names. Returns the answers in the order of `items`; None for
    an object that does not exist."""
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


async def with_lanes_found(connection: Connection, names: Names) -> Names:
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
