"""Tests the open loop and the closed loop of requests."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from benchmarks.loops import closed_loop, open_loop, sustained


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


async def test_a_closed_loop_counts_the_work_of_every_client() -> None:
    answered = 0

    async def request() -> int:
        nonlocal answered
        await asyncio.sleep(0.001)
        answered += 3
        return 3

    loop = asyncio.get_running_loop()
    started_s = loop.time()
    per_s = await closed_loop(16, 0.5, request)
    assert per_s >= answered / (loop.time() - started_s)
    assert answered >= 16 * 3


async def test_a_flow_stays_within_its_window_and_counts_taken_messages() -> None:
    waiting = most = taken = 0

    async def send() -> int:
        nonlocal waiting, most
        waiting += 5
        most = max(most, waiting)
        await asyncio.sleep(0)
        return 5

    async def take() -> int:
        nonlocal waiting, taken
        await asyncio.sleep(0.001)
        now, waiting = waiting, 0
        taken += now
        return now

    begun: list[int] = []
    async with asyncio.timeout(30):
        per_s, messages = await sustained(
            send, take, senders=1, takers=1, window=20, warm_s=0.02, seconds=1.0, begun=lambda: begun.append(taken)
        )
    assert most <= 20
    assert 0 < messages <= taken - begun[0]
    assert per_s <= messages / 1.0
