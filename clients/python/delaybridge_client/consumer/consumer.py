"""Consumes topics with asyncio: pulls with long polls, holds a bounded number of messages, and drains at its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Self

from delaybridge_client.consumer.acks import Acks
from delaybridge_client.consumer.delivery import Delivery
from delaybridge_client.consumer.lease import Lease
from delaybridge_client.consumer.next_pull import NextPull
from delaybridge_client.consumer.reports import Counts, Late, Reports
from delaybridge_client.consumer.terms import ONCE, Terms
from delaybridge_client.errors import DelaybridgeError, Problem
from delaybridge_client.retries import is_temporary
from delaybridge_client.sender import Sender
from delaybridge_client.values.message import LeasedMessage, Pulled

Handler = Callable[[Delivery], Awaitable[object]]


class Consumer:
    """Takes messages from topics until it is stopped.

    Either `await consumer.run(handle)`: the handler runs for up to `concurrency` messages at once. Or `async with
    consumer:` and `async for delivery in consumer:`, and settle each delivery. At most `concurrency` messages are not
    settled at any time.

    A consumer survives restarts of the bridge and cut connections: it goes on pulling, with growing pauses. It ends
    with an error only if the bridge refuses its pulls: for the token, or for a wrong topic.
    """

    def __init__(self, sender: Sender, terms: Terms, *, on_late: Callable[[Late], None] | None = None) -> None:
        self._sender = sender
        self._terms = terms
        self._reports = Reports(on_late)
        self._acks = {topic: Acks(sender, topic) for topic in terms.topics}
        self._held: set[Delivery] = set()
        self._arrived: asyncio.Queue[Delivery | None] = asyncio.Queue()
        self._place_is_free = asyncio.Event()
        self._next_pull = NextPull(self._place_is_free, self._arrived)
        self._pulling: asyncio.Task[None] | None = None

    @property
    def counts(self) -> Counts:
        """The counts of this consumer since its start."""
        return self._reports.counts

    def stop(self) -> None:
        """Stops the pulls. `run` returns when the running handlers have ended; an `async for` ends at once."""
        if self._pulling is not None:
            self._pulling.cancel()

    async def run(self, handle: Handler) -> None:
        """Calls the handler for each message until `stop`. A message whose handler returns is acked; if the handler
        raises an error, it is nacked with the error as the reason.

        If the task of `run` is cancelled, the handlers have the time `drain` to end, as after `stop`. Then they are
        cancelled, and their messages are given back.
        """
        handlers: set[asyncio.Task[None]] = set()
        async with self:
            try:
                async for delivery in self:
                    task = asyncio.create_task(self._handle(handle, delivery))
                    handlers.add(task)
                    task.add_done_callback(handlers.discard)
            finally:
                self.stop()
                await self._drain(handlers)

    async def __aenter__(self) -> Self:
        self._pulling = asyncio.create_task(self._pull())
        self._pulling.add_done_callback(lambda _: self._arrived.put_nowait(None))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._pulling is not None:
            await asyncio.wait((self._pulling,))
            self._failure()  # retrieves the error, if there was one: an iteration has raised it
        given_back = (delivery.give_back() for delivery in tuple(self._held))
        await asyncio.gather(*given_back, return_exceptions=True)

    def __aiter__(self) -> AsyncIterator[Delivery]:
        return self

    async def __anext__(self) -> Delivery:
        delivery = await self._arrived.get()
        if delivery is not None and self._pulling is not None and not self._pulling.done():
            return delivery
        self._arrived.put_nowait(None)  # for the next call
        raise self._failure() or StopAsyncIteration

    async def _pull(self) -> None:
        failed = 0
        try:
            while True:
                while (free := self._terms.concurrency - len(self._held) + len(self._next_pull.acks)) <= 0:
                    self._place_is_free.clear()
                    self._next_pull.wait()
                    await self._place_is_free.wait()
                try:
                    messages = await self._pulled(free)
                except DelaybridgeError as error:
                    if not is_temporary(error):
                        raise
                    failed += 1
                    self._reports.pull_failed(error)
                    asked_s = error.retry_after_s if isinstance(error, Problem) else None
                    await asyncio.sleep(max(self._sender.settings.retries.pause_s(failed), asked_s or 0.0))
                else:
                    failed = 0
                    self._reports.pulled(len(messages))
                    for message in messages:
                        self._take(message)
        finally:
            self._next_pull.end(self._next_pull.start())

    async def _pulled(self, most: int) -> Pulled:
        """Pulls up to `most` messages, and takes acks along. If the bridge refuses such a pull, later pulls take no
        acks: the bridge may be too old."""
        acks, pulled = self._next_pull.start(), Pulled()
        try:
            operation = self._terms.pull(most, [message for message, _ in acks])
            pulled = await self._sender.call(operation, retries=ONCE)
        except DelaybridgeError as error:
            if not acks or is_temporary(error):
                raise
            self._next_pull.refuse()
        finally:
            self._next_pull.end(acks, pulled.acked)
        return pulled

    def _failure(self) -> BaseException | None:
        """Returns the error that ended the pulls; None if they go on, or if the consumer was stopped."""
        if self._pulling is None or not self._pulling.done() or self._pulling.cancelled():
            return None
        return self._pulling.exception()

    def _take(self, message: LeasedMessage) -> None:
        delivery = Delivery(
            message,
            Lease(self._sender, message, self._terms),
            sender=self._sender,
            acks=self._acks[message.topic],
            next_pull=self._next_pull,
            reports=self._reports,
            on_settled=self._settled,
        )
        self._held.add(delivery)
        self._arrived.put_nowait(delivery)

    def _settled(self, delivery: Delivery) -> None:
        self._held.discard(delivery)
        self._place_is_free.set()

    async def _handle(self, handle: Handler, delivery: Delivery) -> None:
        try:
            async with delivery:
                await handle(delivery)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other messages go on
            self._reports.failed(delivery.message, error)

    async def _drain(self, handlers: set[asyncio.Task[None]]) -> None:
        if not handlers:
            return
        _, running = await asyncio.wait(set(handlers), timeout=self._terms.drain.total_seconds())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
