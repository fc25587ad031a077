"""The two loops of requests."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from bridge.bench.client import closed_loop, open_loop


async def test_an_open_loop_starts_the_next_send_while_none_is_answered() -> None:
    started: list[int] = []
    all_started = asyncio.Event()

    async def send(at: int) -> None:
        started.append(at)
        if len(started) == 20:
            all_started.set()
        await all_started.wait()

    async with asyncio.timeout(30):
        scheduled_ms = await open_loop(20, 1_000, send)
    assert started == list(range(20))
    distances_ms = [later - sooner for sooner, later in pairwise(scheduled_ms)]
    assert all(abs(distance_ms - 1) < 0.01 for distance_ms in distances_ms)


async def test_a_closed_loop_counts_what_every_client_has_done() -> None:
    answered = 0

    async def request() -> int:
        nonlocal answered
        await asyncio.sleep(0.001)
        answered += 3
        return 3

    loop = asyncio.get_running_loop()
    started_s = loop.time()
    per_s = await closed_loop(16, 0.05, request)
    assert per_s >= answered / (loop.time() - started_s)
    assert answered >= 16 * 3
