"""Drives requests in three kinds of loops.

An open loop sends by a schedule and does not wait for answers. So a slow server can't slow its clients down and hide
its lateness. A closed loop sends the next request after the answer to the last one, so it finds the server's
throughput. A sustained flow has senders and takers at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from time import monotonic, time
from typing import Any


@asynccontextmanager
async def together() -> AsyncIterator[asyncio.TaskGroup]:
    """Runs tasks as a group. If one fails, the others are cancelled, and its error is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def open_loop(count: int, rate_per_s: float, send: Callable[[int], Awaitable[None]]) -> list[float]:
    """Starts `send(0)`, `send(1)`, … at even intervals, and waits until all have ended. Returns their planned start
    moments in Unix ms."""
    start_s = monotonic() + 0.05
    unix_ms = (time() - monotonic()) * 1_000
    moments_s = [start_s + number / rate_per_s for number in range(count)]
    async with together() as group:
        for number, moment_s in enumerate(moments_s):
            if (left_s := moment_s - monotonic()) > 0:
                await asyncio.sleep(left_s)
            group.create_task(_awaited(send, number))
    return [unix_ms + moment_s * 1_000 for moment_s in moments_s]


async def closed_loop(clients: int, seconds: float, request: Callable[[], Awaitable[int]]) -> float:
    """Lets `clients` send one request after the other for `seconds`. Returns the sum of the results of `request`, per
    second."""
    start_s = monotonic()
    done = 0

    async def client() -> None:
        nonlocal done
        while monotonic() - start_s < seconds:
            # In two steps: `done += await …` reads `done` before it waits, and loses what other clients add meanwhile.
            finished = await request()
            done += finished

    async with together() as group:
        for _ in range(clients):
            group.create_task(client())
    return done / (monotonic() - start_s)


async def sustained(
    send: Callable[[], Awaitable[int]],
    take: Callable[[], Awaitable[int]],
    *,
    senders: int,
    takers: int,
    window: int,
    warm_s: float,
    seconds: float,
    begun: Callable[[], None] = lambda: None,
) -> tuple[float, int]:
    """Lets senders send and takers take at the same time, with at most `window` messages sent and not yet taken.

    `send` and `take` return a number of messages. Counting begins after `warm_s`, with a call of `begun`. Returns the
    messages taken per second, and their number.
    """
    sent = taken = 0

    async def sender() -> None:
        nonlocal sent
        while True:
            if sent - taken >= window:
                await asyncio.sleep(0.005)
                continue
            now = await send()
            sent += now

    async def taker() -> None:
        nonlocal taken
        while True:
            now = await take()
            taken += now

    async with together() as group:
        tasks = [group.create_task(sender()) for _ in range(senders)]
        tasks += [group.create_task(taker()) for _ in range(takers)]
        await asyncio.sleep(warm_s)
        begun()
        start_s, before = monotonic(), taken
        await asyncio.sleep(seconds)
        messages, took_s = taken - before, monotonic() - start_s
        await end(tasks)
    return messages / took_s, messages


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels the tasks until they are done: a client may take a cancel for a lost connection, and retry."""
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=1)


async def _awaited(send: Callable[[int], Awaitable[None]], number: int) -> None:
    await send(number)
