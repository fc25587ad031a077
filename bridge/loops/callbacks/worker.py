"""Pulls the due messages of one subscription and calls its receiver, up to the subscription's concurrency."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic

import structlog

from bridge.loops.callbacks.delivery import Delivery
from bridge.model.part_state import OK
from bridge.model.values import Leased
from bridge.service.health.supervisor import Status
from bridge.service.pulling.pulling import Pulling
from bridge.service.topics.subscriptions import Subscription

# After a call has ended or timed out, its message must be settled before the lease expires.
_LEASE_BEYOND_CALL_MS = 5_000
_WAIT_MS = 10_000
_RETRY_S = 0.5


class Worker:
    """Pulls messages and calls the receiver. `run` goes on until `stop` is called, or until the process ends its pulls.
    Then it waits until the calls in flight have ended."""

    def __init__(
        self,
        subscription: Subscription,
        *,
        pulling: Pulling,
        delivery: Delivery,
        stopping: asyncio.Event,
        name: str,
    ) -> None:
        """`stopping`: shared with the delivery, which sets it when the subscription ends. `name`: the loop's name, for
        its status."""
        self.status = Status(name, state=OK, retry_s=_RETRY_S)
        self._subscription = subscription
        self.topic = subscription.topic
        self._pulling = pulling
        self._delivery = delivery
        self._stopping = stopping
        self._calls: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        structlog.contextvars.bind_contextvars(topic=self.topic)
        try:
            while not self._stopped:
                if pause_s := await self.status.attempt(self._pull):
                    await self._pause(pause_s)
        finally:
            await self._finish()

    @property
    def _stopped(self) -> bool:
        return self._stopping.is_set() or self._pulling.draining

    async def _pause(self, for_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(for_s):
                await self._stopping.wait()

    async def _pull(self) -> float:
        """Pulls as many messages as the concurrency leaves room for, and starts their calls. Returns the seconds until
        the next pull."""
        if (held_s := self._delivery.held_until_s - monotonic()) > 0:
            return held_s
        free = self._subscription.concurrency - len(self._calls)
        if not free:
            await asyncio.wait(self._calls, return_when=asyncio.FIRST_COMPLETED)
            return 0.0
        lease_ms = self._subscription.timeout_ms + _LEASE_BEYOND_CALL_MS
        for leased in await self._pulling.pull([self.topic], limit=free, wait_ms=_WAIT_MS, lease_ms=lease_ms):
            call = asyncio.create_task(self._call(leased))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        return 0.0

    async def _call(self, leased: Leased) -> None:
        try:
            if self._stopped:
                await self._delivery.requeue(leased, 0)
            else:
                await self._delivery.deliver(leased)
            self.status.mended([leased.message.record.id])
        except Exception as error:  # noqa: BLE001 - the status logs it; the message comes again when its lease ends
            self.status.failed(error, item=leased.message.record.id)

    async def _finish(self) -> None:
        """Waits for the calls in flight. If this wait is cancelled, cancels the calls; their messages are delivered
        again after the leases end."""
        try:
            while self._calls:
                await asyncio.wait(self._calls)
        finally:
            for call in self._calls:
                call.cancel()
            await self._delivery.close()
