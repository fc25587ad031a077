"""The peer: a sorted set in Redis and a poller, the delay queue most projects write for themselves.

Its "accepted" is one Redis server's word, with the append-only file written through to the disk before the answer. It
has no HTTP, no lease, no retry, no look-up beyond the body by id, and what its poller moved is lost with a consumer.
"""

from __future__ import annotations

import asyncio
from time import time
from typing import Final

from redis.asyncio import BlockingConnectionPool, Redis

_WAITING: Final = "peer:waiting"
_READY: Final = "peer:ready"
_AT_ONCE: Final = 1_000


class ZsetQueue:
    """Waiting ids in a sorted set by their due moment, bodies in a hash, ready ids in a list."""

    def __init__(self, url: str, *, connections: int) -> None:
        pool: BlockingConnectionPool = BlockingConnectionPool.from_url(
            url, max_connections=connections, timeout=60, decode_responses=True
        )
        self._redis = Redis(connection_pool=pool)

    async def send(self, message_id: str, body: bytes, due_ms: float) -> None:
        """Accepts a message: both writes in one transaction."""
        async with self._redis.pipeline(transaction=True) as transaction:
            transaction.hset("peer:bodies", message_id, body)
            transaction.zadd(_WAITING, {message_id: due_ms})
            await transaction.execute()

    async def poll(self, tick_s: float) -> None:
        """Moves what is due to the ready list at every tick; runs for ever."""
        while True:
            due = await self._redis.zrange(_WAITING, 0, int(time() * 1_000), byscore=True, offset=0, num=_AT_ONCE)
            if due:
                async with self._redis.pipeline(transaction=True) as transaction:
                    transaction.zrem(_WAITING, *due)
                    transaction.rpush(_READY, *due)
                    await transaction.execute()
            if len(due) < _AT_ONCE:
                await asyncio.sleep(tick_s)

    async def receive(self) -> str:
        """Takes the next ready id, waiting for one."""
        while True:
            taken = await self._redis.blpop([_READY], timeout=1)
            if taken is not None:
                return str(taken[1])

    async def empty(self) -> None:
        await self._redis.flushall()

    async def close(self) -> None:
        await self._redis.aclose()
