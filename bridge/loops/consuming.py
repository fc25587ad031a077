"""Consumes one of the bridge's queues over one channel, until the channel is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NoReturn, TypeVar

from bridge.broker.client.consumer import Consumer, Delivery
from bridge.model.errors import BrokerUnavailable, QueueMissing
from bridge.service.context import Context

T = TypeVar("T")


@asynccontextmanager
async def consuming(
    context: Context, queue: str, purpose: str, *, prefetch: int, received: Callable[[Delivery], None]
) -> AsyncIterator[Consumer]:
    """Yields a consumer of a queue that is declared with the wheel. If the queue is missing, declares the wheel for the
    next try. `purpose`: part of the name that RabbitMQ shows for the connection.

    Raises:
        BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        QueueMissing: somebody deleted the queue.
    """
    wheel = context.broker.declared.wheel
    await wheel.ensure()
    try:
        consumer = await context.broker.reader(queue, purpose).open(prefetch=prefetch, received=received)
    except QueueMissing:
        await wheel.renew()
        raise
    try:
        yield consumer
    finally:
        with suppress(BrokerUnavailable):
            await consumer.close()


async def work(
    consumer: Consumer,
    run_once: Callable[[Consumer], Awaitable[None]],
    *,
    at_once: int = 1,
    beside: Sequence[Coroutine[Any, Any, None]] = (),
) -> NoReturn:
    """Repeats `run_once` until the channel is lost or a run fails. `at_once`: how many runs go on at a time. `beside`:
    further coroutines to run meanwhile; one that fails or returns also ends the work. An error of a run or of a
    coroutine is raised on.

    Raises:
        BrokerUnavailable: the channel is lost.
    """

    async def repeat() -> None:
        while True:
            await run_once(consumer)

    closed = asyncio.create_task(consumer.until_closed())
    repeating = [*map(asyncio.create_task, [*(repeat() for _ in range(at_once)), *beside])]
    try:
        await asyncio.wait((closed, *repeating), return_when=asyncio.FIRST_COMPLETED)
        for task in (closed, *repeating):
            if task.done():
                task.result()
        raise BrokerUnavailable("the channel was closed")
    finally:
        for task in (closed, *repeating):
            task.cancel()


async def next_batch(arrived: asyncio.Queue[T], most: int) -> list[T]:
    """Waits for an item of the queue. Takes and returns the items that have arrived, up to `most`."""
    batch = [await arrived.get()]
    while len(batch) < most and not arrived.empty():
        batch.append(arrived.get_nowait())
    return batch


def again(arrived: asyncio.Queue[T], items: Sequence[T], after_s: float) -> None:
    """Puts the items back into `arrived` after `after_s` seconds. `arrived`: the queue of the session that took the
    items out, because their delivery tags are valid only on that session's channel."""
    if items:
        asyncio.get_running_loop().call_later(after_s, _put, arrived, items)


def _put(arrived: asyncio.Queue[T], items: Sequence[T]) -> None:
    for item in items:
        arrived.put_nowait(item)
