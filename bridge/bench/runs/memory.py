"""What a waiting message costs in Redis."""

from __future__ import annotations

import random

from redis.asyncio import Redis

from bridge.bench import client
from bridge.bench.bench import Bench
from bridge.bench.runs.filling import fill

SAYS = (
    "Growth of Redis' `used_memory` (less the buffers of its clients and of its append-only file) by message that "
    "waits with an id of 26 characters, without its body (BRIDGE_KEEP_BODY_MAX=0): record, index entry and all."
)


async def run(bench: Bench) -> None:
    stack, count, topic = bench.own, bench.size.memory, bench.topic("memory")
    await stack.fresh(BRIDGE_KEEP_BODY_MAX="0")
    async with client.opened(stack.http_url) as api:
        await api.send_batch(topic, [_message()])
    async with Redis.from_url(stack.redis.url) as redis:
        before = await _data_bytes(redis)
        await fill(stack.http_url, topic, count, _message)
        bench.add("memory per waiting message", (await _data_bytes(redis) - before) / count, "bytes")


async def _data_bytes(redis: Redis) -> int:
    info = await redis.info("memory")
    return int(info["used_memory"] - info["mem_clients_normal"] - info["mem_aof_buffer"])


def _message() -> dict[str, object]:
    return {"body": {"order": random.randrange(10**6)}, "delay": random.randint(10, 20) * 3_600_000 + 101}
