"""Measures a sorted set in Redis with a poller: the delay queue that most projects write for themselves.

It has no HTTP, no leases and no retries, and looks up only bodies by id. If a consumer fails, the messages that the
poller moved for it are lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import time
from typing import Final

from redis.asyncio import BlockingConnectionPool, Redis

from benchmarks import loops
from benchmarks.peers.peer import BATCH, CLIENTS, Queue
from bridge.local.redis import AppendFsync, RedisNode

_WAITING: Final = "peer:waiting"
_READY: Final = "peer:ready"
_BODIES: Final = "peer:bodies"
_AT_ONCE: Final = 1_000
FSYNCS: Final[tuple[AppendFsync, ...]] = ("everysec", "always")
SAYS: Final = {
    "always": "one Redis has it, and has written its append-only file to the disk (appendfsync always)",
    "everysec": "one Redis has it in memory, and writes it to the disk within about a second (appendfsync everysec)",
}


class ZsetQueue(Queue):
    """Keeps waiting ids in a sorted set by their due moment, bodies in a hash, and ready ids in a list."""

    def __init__(self, folder: Path, tick_s: float, appendfsync: AppendFsync) -> None:
        tick = f"{tick_s:g} s" if tick_s >= 1 else f"{tick_s * 1_000:g} ms"
        self.name = f"zset, {tick}, {appendfsync}"
        self.accepted = SAYS[appendfsync]
        self._tick_s = tick_s
        self._node = RedisNode(folder / f"redis-{appendfsync}", appendfsync=appendfsync)
        self._redis: Redis

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        try:
            await asyncio.to_thread(self._node.start)
            pool: BlockingConnectionPool = BlockingConnectionPool.from_url(
                self._node.url, max_connections=CLIENTS + 8, timeout=60, decode_responses=True
            )
            async with Redis(connection_pool=pool) as self._redis:
                await self._redis.flushall()
                yield
        finally:
            self._node.kill()

    async def send(self, messages: Sequence[tuple[str, bytes, int]]) -> None:
        now_ms = time() * 1_000
        async with self._redis.pipeline(transaction=True) as transaction:
            transaction.hset(_BODIES, mapping={message_id: body for message_id, body, _ in messages})
            transaction.zadd(_WAITING, {message_id: now_ms + delay_ms for message_id, _, delay_ms in messages})
            await transaction.execute()

    async def take(self) -> list[str]:
        taken = await self._redis.lpop(_READY, BATCH)
        if not taken:
            first = await self._redis.blpop([_READY], timeout=1)
            if first is None:
                return []
            taken = [first[1]]
        ids = [str(one) for one in taken]
        async with self._redis.pipeline(transaction=False) as pipeline:
            pipeline.hmget(_BODIES, ids)
            pipeline.hdel(_BODIES, *ids)
            await pipeline.execute()
        return ids

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        polling = asyncio.create_task(self._poll())
        try:
            yield
        finally:
            await loops.end([polling])
        if not polling.cancelled() and (error := polling.exception()) is not None:
            raise error

    async def _poll(self) -> None:
        """Moves due ids to the ready list at every tick. Runs for ever."""
        while True:
            due = await self._redis.zrange(_WAITING, 0, int(time() * 1_000), byscore=True, offset=0, num=_AT_ONCE)
            if due:
                async with self._redis.pipeline(transaction=True) as transaction:
                    transaction.zrem(_WAITING, *due)
                    transaction.rpush(_READY, *due)
                    await transaction.execute()
            if len(due) < _AT_ONCE:
                await asyncio.sleep(self._tick_s)
