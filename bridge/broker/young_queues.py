"""Queues that were declared a moment ago, on a broker that may be killed.

A quorum queue that was just created does not survive a kill of the broker: its registration is written about once a
second (measured: lost when killed up to 0.6 s after the declare, kept from 1.2 s on, on 3.10, 4.0 and 4.3). So a
confirm of a queue counts only once the queue is old enough.

Where its name was written before the kill and its registration was not, 4.3 starts the queue empty. 3.10 and 4.0 leave
one that stands, runs by all that is told of it, and answers nobody, also after further starts, until it is deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from math import inf
from time import monotonic
from typing import TypeVar

import structlog
from pamqp import commands as spec

from bridge.broker.link import Link, translated
from bridge.errors import BrokerUnavailable, QueueMissing

log = structlog.get_logger(__name__)

Answer = TypeVar("Answer")

_SETTLES_AFTER_S = 1.5
_ANSWERS_WITHIN_S = 3.0  # before the broker itself gives up the queue, after 5 s, and the connection with it
_WAITED_FOR_S = 0.5
_AT_ONCE = 256  # each has a channel of its own, of which a broker allows 2,047 a connection
_DELETED_WITHIN_S = 30.0  # the broker forces it after 5 s


class YoungQueues:
    """What was declared together is a group: the wheel, or a topic's queues."""

    def __init__(self, spare: Callable[[], Link]) -> None:
        """`spare` makes a link for questions whose answer may cost the connection."""
        self._spare = spare
        self._begun: set[str] = set()
        self._declared_s: dict[str, float] = {}  # when what this process declared settles
        self._found_s: dict[str, float] = {}  # and what stood when it was first seen
        self._doubtful: set[str] = set()
        self._replacing: dict[str, asyncio.Task[None]] = {}

    def begun(self, group: str) -> bool:
        """Whether a declare of it has begun and not ended well: nobody knows how far it got."""
        return group in self._begun

    def declaring(self, group: str) -> None:
        self._begun.add(group)

    def declared(self, group: str) -> None:
        self._begun.discard(group)
        self._declared_s[group] = monotonic() + _SETTLES_AFTER_S

    def stands(self, group: str) -> None:
        """It was declared by somebody else, perhaps a moment ago."""
        self._found_s.setdefault(group, monotonic() + _SETTLES_AFTER_S)

    def old(self, group: str) -> None:
        """If it was declared by somebody else, that was long ago."""
        self._found_s[group] = 0.0

    def forget(self, group: str) -> None:
        for known in (self._begun, self._doubtful):
            known.discard(group)
        for times_s in (self._declared_s, self._found_s):
            times_s.pop(group, None)

    def unsettled(self, group: str) -> bool:
        """Whether a confirm by its queues does not count yet."""
        return group in self._begun or self._settles_s(group, inf) > monotonic()

    async def settled(self, groups: Iterable[str]) -> None:
        """Waits until confirms by their queues outlive a kill of the broker."""
        until_s = max(self._settles_s(group, 0.0) for group in groups)
        if (left_s := until_s - monotonic()) > 0:
            await asyncio.sleep(left_s)

    def lost(self) -> None:
        """The connection is lost: what is young now may answer nobody when the broker is back."""
        self._doubtful |= {group for group in (*self._begun, *self._declared_s) if self.unsettled(group)}

    async def replace(self, group: str, queues: Sequence[str]) -> None:
        """Deletes those of a doubtful group's queues that stand and answer nobody: no confirm of theirs has counted.

        Raises:
            BrokerUnavailable: or it takes longer, and goes on.
        """
        if group not in self._doubtful:
            return
        if (replacing := self._replacing.get(group)) is None:
            replacing = self._replacing[group] = asyncio.create_task(self._replace(group, queues))
            replacing.add_done_callback(partial(self._ended, group))
        # What answers does so at once; what does not, others are not made to wait for.
        await asyncio.wait({replacing}, timeout=_WAITED_FOR_S)
        if not replacing.done():
            raise BrokerUnavailable("RabbitMQ left new queues without a leader: they are being declared again")
        replacing.result()

    def _ended(self, group: str, replacing: asyncio.Task[None]) -> None:
        del self._replacing[group]
        if not replacing.cancelled():
            replacing.exception()  # told to whoever waits still; the next one tries again

    async def _replace(self, group: str, queues: Sequence[str]) -> None:
        answers = await self._of_each(queues, _silent)
        silent = [queue for queue, is_silent in zip(queues, answers, strict=True) if is_silent]
        if silent:
            log.warning("topology.silent", queues=silent[:10], count=len(silent))
            await self._of_each(silent, _delete)
        self._doubtful.discard(group)

    async def _of_each(self, queues: Sequence[str], ask: Callable[[Link, str], Awaitable[Answer]]) -> list[Answer]:
        answers: list[Answer] = []
        for start in range(0, len(queues), _AT_ONCE):
            link = self._spare()
            try:
                answers += await asyncio.gather(*(ask(link, queue) for queue in queues[start : start + _AT_ONCE]))
            finally:
                await link.drop()
        return answers

    def _settles_s(self, group: str, unknown_s: float) -> float:
        found_s = self._declared_s.get(group)
        return self._found_s.get(group, unknown_s) if found_s is None else found_s

    async def close(self) -> None:
        for replacing in self._replacing.values():
            replacing.cancel()
        await asyncio.gather(*self._replacing.values(), return_exceptions=True)


async def _silent(link: Link, queue: str) -> bool:
    channel = await link.channel()
    try:
        async with translated():
            found = await channel.queue_declare(queue, passive=True)
            if found.message_count or found.consumer_count:
                return False
            try:
                async with asyncio.timeout(_ANSWERS_WITHIN_S):
                    got = await channel.basic_get(queue)
            except TimeoutError:
                return True
            if isinstance(got.delivery, spec.Basic.GetOk):
                await channel.basic_reject(got.delivery.delivery_tag or 0, requeue=True)
            return False
    except QueueMissing:
        return False


async def _delete(link: Link, queue: str) -> None:
    channel = await link.channel()
    async with translated(_DELETED_WITHIN_S):
        await channel.queue_delete(queue)
