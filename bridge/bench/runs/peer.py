"""The peer under the same loads: lateness with two ticks, and sends."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from time import time

from bridge.bench import client
from bridge.bench.bench import Bench
from bridge.bench.figures import percentiles
from bridge.bench.peers import ZsetQueue

SAYS = (
    "A sorted set in the same Redis and a poller, in this process, without HTTP. Lateness: the open loop of `lateness` "
    "with a tick of 1 s, then 10 ms. Sends: 64 clients in a closed loop. Accepted means written by one Redis with "
    "appendfsync always: one copy on one machine, and nobody holds it once a consumer has taken it."
)
_CLIENTS = 64
_TICKS_S = {"1 s": 1.0, "10 ms": 0.01}


async def run(bench: Bench) -> None:
    # The bridge is not in the way, and the Redis is the same.
    await bench.own.stop_bridge()
    for tick, tick_s in _TICKS_S.items():
        await _lateness(bench, f"peer tick {tick}", tick_s)
    async with _queue(bench) as queue:
        number = count()

        async def send() -> int:
            await queue.send(str(next(number)), b"0", time() * 1_000 + 600_000)
            return 1

        before = bench.stack.cpu_s()
        per_s = await client.closed_loop(_CLIENTS, bench.size.peer_s, send)
        bench.add("peer sends", per_s, "messages/s")
        bench.add_cpu("peer sends", before, max(1, round(per_s * bench.size.peer_s)))


async def _lateness(bench: Bench, name: str, tick_s: float) -> None:
    messages = int(bench.size.rate_per_s * bench.size.peer_s)
    due_ms: dict[str, float] = {}
    late_ms: list[float] = []
    async with _queue(bench) as queue:

        async def send(at: int) -> None:
            due_ms[str(at)] = time() * 1_000 + random.uniform(1_000, 5_000)
            await queue.send(str(at), b"0", due_ms[str(at)])

        async def receive() -> None:
            while len(late_ms) < messages:
                message_id = await queue.receive()
                late_ms.append(time() * 1_000 - due_ms[message_id])

        before = bench.stack.cpu_s()
        async with client.together() as group:
            polling = group.create_task(queue.poll(tick_s))
            receiving = group.create_task(receive())
            await client.open_loop(messages, bench.size.rate_per_s, send)
            await receiving
            polling.cancel()
    for which, value_ms in percentiles(late_ms).items():
        bench.add(f"{name} {which}", value_ms, "ms")
    bench.add_cpu(name, before, messages)


@asynccontextmanager
async def _queue(bench: Bench) -> AsyncIterator[ZsetQueue]:
    queue = ZsetQueue(bench.own.redis.url, connections=_CLIENTS + 2)
    try:
        await queue.empty()
        yield queue
    finally:
        await queue.close()
