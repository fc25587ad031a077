"""Many callers at once share few connections to Redis, and none is refused."""

from __future__ import annotations

import asyncio

from bridge.local.redis import RedisNode
from bridge.store.client import Store
from bridge.store.servers.pipelines import PLACES

CALLERS = 1_000


async def connections_that_echoed(store: Store) -> int:
    """The number of connections over which only this test sends commands."""
    listed: bytes = await store.command("CLIENT", "LIST")
    return listed.count(b" cmd=echo ")


async def test_a_thousand_callers_at_once_are_answered_over_few_connections(redis_node: RedisNode) -> None:
    store = Store(redis_node.url, timeout_ms=10_000)
    try:
        answers = await asyncio.gather(*(store.command("ECHO", f"{number}") for number in range(CALLERS)))
        assert answers == [b"%d" % number for number in range(CALLERS)]
        # One of them has listed the others since.
        assert 0 < await connections_that_echoed(store) < PLACES
    finally:
        await store.close()
