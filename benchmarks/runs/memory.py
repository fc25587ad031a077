"""Measures the memory of a waiting message whose body Redis does not keep."""

from __future__ import annotations

import random

from redis.asyncio import Redis

from benchmarks.bench import Bench
from benchmarks.bodies import BODY
from benchmarks.runs.filling import fill

SAYS = (
    "With BRIDGE_KEEP_BODY_MAX=0 and bodies of 200 bytes: the growth of memory for each waiting message with an id of "
    "26 characters, measured as in `backlog`. `per waiting message` is the growth of Redis' `used_memory` alone, "
    "without the buffers of its clients and of its append-only file. It includes the record and the index entry."
)
_FIFTHS = 5


async def run(bench: Bench) -> None:
    stack, topic = bench.own, bench.topic("memory")
    fifth = bench.size.memory // _FIFTHS
    await stack.fresh(BRIDGE_KEEP_BODY_MAX="0")
    async with Redis.from_url(stack.redis.url) as redis:
        await fill(stack.http_url, topic, fifth, _message)
        await stack.settle(bench.size.settles_s)
        before, before_bytes = stack.memory_mib(), await _data_bytes(redis)
        more = fifth * (_FIFTHS - 1)
        await fill(stack.http_url, topic, more, _message, first=fifth)
        await stack.settle(bench.size.settles_s)
        bench.add("memory per waiting message", (await _data_bytes(redis) - before_bytes) / more, "bytes")
    by_message = {part: (mib - before[part]) * 1024**2 / more for part, mib in stack.memory_mib().items()}
    for part in ("rabbitmq", "redis"):
        bench.add(f"memory {part} by message", by_message[part], "bytes")
    bench.add("memory by message, body not kept", by_message["rabbitmq"] + by_message["redis"], "bytes")


async def _data_bytes(redis: Redis) -> int:
    info = await redis.info("memory")
    return int(info["used_memory"] - info["mem_clients_normal"] - info["mem_aof_buffer"])


def _message() -> dict[str, object]:
    return {"body": BODY, "delay": random.randint(10, 20) * 3_600_000 + 101}
