"""Taking messages out of queues, without burning delivery counts.

What is there is fetched with `basic.get`, or, where it is much, by a consumer that may hold as many as are wanted and
no more. What is not there yet is waited for by a consumer that may hold one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiormq import Channel
from pamqp import commands as spec

from bridge.broker.client.connection import BrokerConnection
from bridge.broker.client.delivery import delivery_of
from bridge.broker.ready.fetch_many import Fetcher
from bridge.broker.ready.long_poll import LongPoll
from bridge.broker.ready.taken import Taken
from bridge.model.errors import BrokerUnavailable

_CHANNELS = 8  # one channel gets 900 messages a second, eight of them 3,900
_FEW = 8  # a turn of each channel; a consumer for more takes two or three round trips


class Taker:
    """Takes out of queues over a few channels of one link. The queues are seen to by the caller."""

    def __init__(self, link: BrokerConnection, *, timeout_ms: int) -> None:
        self._link = link
        self._timeout_s = timeout_ms / 1_000
        self._getting: list[Channel | None] = [None] * _CHANNELS
        self._opening = [asyncio.Lock() for _ in range(_CHANNELS)]
        self._next = 0
        self._gatherer = Fetcher(link, timeout_ms=timeout_ms)
        self._poller = LongPoll(link, timeout_ms=timeout_ms)

    async def take(self, queue: str, limit: int) -> list[Taken]:
        """Takes up to `limit` messages that stand in the queue now, oldest first.

        Raises:
            BrokerUnavailable: none was taken.
        """
        first, left = await self._get(queue)
        if first is None:
            return []
        wanted = min(limit - 1, left)
        if wanted <= _FEW:
            return [first, *await self._get_few(queue, wanted)]
        try:
            return [first, *(Taken(queue, one) for one in await self._gatherer.gather(queue, wanted))]
        except BrokerUnavailable:
            # What could not be had is no reason to give up what is here.
            return [first]
        except asyncio.CancelledError:
            await first.requeue()
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

        # What one channel could not get is no reason to give up what others did.
        await asyncio.gather(*(get_more() for _ in range(min(wanted, _CHANNELS))), return_exceptions=True)
        return taken

    async def wait(self, queues: Sequence[str], wait_ms: int, ending: asyncio.Event) -> list[Taken]:
        """As `LongPoll.wait`."""
        return await self._poller.wait(queues, wait_ms, ending)

    async def _get(self, queue: str) -> tuple[Taken | None, int]:
        """The oldest message, and how many stand behind it."""
        self._next = (self._next + 1) % _CHANNELS
        at = self._next
        async with self._opening[at]:
            channel = self._getting[at]
            if channel is None or channel.is_closed:
                channel = self._getting[at] = await self._link.channel()
        async with self._link.asking(self._timeout_s):
            message = await channel.basic_get(queue, timeout=self._timeout_s)
        if isinstance(message.delivery, spec.Basic.GetEmpty):
            return None, 0
        return Taken(queue, delivery_of(message)), message.message_count or 0
