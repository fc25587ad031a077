"""Limits how many batches are in flight at once, and reports the first batch that fails by a fault of the bridge."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

AT_ONCE: Final = 3
"""The most batches in flight: one asks Redis while another waits for confirms. With more, batches would be smaller and
cost more for each copy."""


class Flight:
    """The batches in flight, at most `AT_ONCE`. A batch that uses a queue younger than 1.5 s is not counted: it waits
    until a message in that queue survives a kill of RabbitMQ."""

    def __init__(self) -> None:
        self._batches: set[asyncio.Task[None]] = set()
        self._settling: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def failed(self) -> asyncio.Future[None]:
        """A future that ends with the exception of the first batch that raises one."""
        return self._failed

    async def room(self) -> None:
        """Waits until another batch may begin."""
        while len(self._batches) - len(self._settling) >= AT_ONCE:
            await asyncio.wait(self._batches - self._settling, return_when=asyncio.FIRST_COMPLETED)

    def begin(self, batch: Coroutine[Any, Any, None], *, settling: bool) -> None:
        """Begins a batch. `settling`: one of the batch's queues is so new that a confirm of the queue does not count
        yet."""
        task = asyncio.create_task(batch)
        self._batches.add(task)
        if settling:
            self._settling.add(task)
        task.add_done_callback(self._ended)

    async def land(self) -> None:
        """Waits until all batches have ended."""
        if self._batches:
            await asyncio.wait(self._batches)

    def cancel(self) -> None:
        """Cancels all batches."""
        for task in self._batches:
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._batches.discard(task)
        self._settling.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._failed.done():
            self._failed.set_exception(error)
