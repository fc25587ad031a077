"""Takes messages out of queues without wasting delivery counts.

It fetches ready messages with `basic.get`. If many are wanted, a consumer with exactly that prefetch fetches them
(`fetch_many.py`). A pull that waits for a message gets it from a feed (`feed.py`).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from bridge.broker.client.channel import Channel
from bridge.broker.client.connection import BrokerConnection
from bridge.broker.client.gets import GetNotRead
from bridge.broker.ready.fetch_many import Fetcher
from bridge.broker.ready.taken import Taken
from bridge.model import background
from bridge.model.errors import BrokerUnavailable

_CHANNELS = 8  # one channel gets 900 messages a second, eight of them 3,900
_MOST_BYTES = 16 * 1024 * 1024  # of all bodies that one call takes, if all are as large as the first
_FEW = 8  # one `basic.get` on each channel; a consumer for more takes two or three round trips


class Taker:
    """Takes messages over a few channels of one connection. Callers declare the queues."""

    def __init__(self, connection: BrokerConnection, *, timeout_ms: int) -> None:
        self._connection = connection
        self._timeout_s = timeout_ms / 1_000
        self._channels: list[Channel | None] = [None] * _CHANNELS
        self._opening = [asyncio.Lock() for _ in range(_CHANNELS)]
        self._next = 0
        self._fetcher = Fetcher(connection, timeout_ms=timeout_ms)

    async def take(self, queue: str, limit: int) -> list[Taken]:
        """Takes up to `limit` messages that are ready now, the oldest first. Takes fewer if their bodies are large:
        about 16 MiB in all.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time; no message was taken.
            QueueMissing: the queue does not exist.
        """
        first, behind = await self._get(queue)
        if first is None:
            return []
        wanted = min(limit - 1, behind, _MOST_BYTES // (len(first.message.body) + 1))
        if wanted <= _FEW:
            return [first, *await self._get_few(queue, wanted)]
        try:
            return [first, *(Taken(queue, delivery) for delivery in await self._fetcher.fetch(queue, wanted))]
        except BrokerUnavailable:
            return [first]
        except asyncio.CancelledError:
            first.requeue()
            raise

    async def _get_few(self, queue: str, wanted: int) -> list[Taken]:
        taken: list[Taken] = []

        async def get_more() -> None:
            nonlocal wanted
            while wanted > 0:
                wanted -= 1
                message, _ = await self._get(queue)
                if message is None:
                    wanted = 0
                    return
                taken.append(message)

        # If a get fails on one channel, the messages from the other channels are still returned.
        gets = (get_more() for _ in range(min(wanted, _CHANNELS)))
        for error in await asyncio.gather(*gets, return_exceptions=True):
            if isinstance(error, Exception):
                background.failed("get messages", error)
        return taken

    async def _get(self, queue: str) -> tuple[Taken | None, int]:
        """Takes the oldest message, and returns it with the number of messages that are ready behind it. None: the
        queue is empty."""
        for _ in range(_CHANNELS - 1):
            with suppress(GetNotRead):
                return await self._get_once(queue)
        return await self._get_once(queue)

    async def _get_once(self, queue: str) -> tuple[Taken | None, int]:
        self._next = (self._next + 1) % _CHANNELS
        at = self._next
        async with self._opening[at]:
            channel = self._channels[at]
            if channel is None or not channel.is_open:
                channel = self._channels[at] = await self._connection.channel()
        async with self._connection.asking(self._timeout_s):
            delivery, behind = await channel.get(queue)
        return (None if delivery is None else Taken(queue, delivery)), behind
