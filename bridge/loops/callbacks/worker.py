"""The worker of one subscription: pulls what is due, calls it out, and settles it by what was answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from hashlib import sha256
from time import monotonic

import structlog

from bridge import metrics
from bridge.loops.callbacks.caller import Caller
from bridge.loops.callbacks.decisions import (
    Acked,
    Answer,
    Ended,
    Failure,
    Held,
    Outcome,
    Reason,
    Retry,
    after,
)
from bridge.loops.callbacks.destinations import Destinations, NoDestination
from bridge.loops.callbacks.request import Destination, headers_of
from bridge.model.errors import Conflict, NotFound, Unavailable
from bridge.model.message import Message
from bridge.model.values import Leased
from bridge.service.pulling import Pulling
from bridge.service.settling import Settling
from bridge.service.subscriptions import Subscription, Subscriptions
from bridge.store.clock import StoreClock

log = structlog.get_logger(__name__)

# After a call has ended or was given up, it has to be settled while the lease lasts.
_LEASE_BEYOND_CALL_MS = 5_000
_WAIT_MS = 10_000
_RETRY_S = 0.5


class Worker:
    """Works until it is told to stop; then it takes nothing more, and ends when its calls have ended."""

    def __init__(
        self,
        subscription: Subscription,
        *,
        pulling: Pulling,
        settling: Settling,
        subscriptions: Subscriptions,
        destinations: Destinations,
        caller: Caller,
        clock: StoreClock,
    ) -> None:
        self._subscription = subscription
        self.topic = self._topic = subscription.topic
        self._pulling = pulling
        self._settling = settling
        self._subscriptions = subscriptions
        self._destinations = destinations
        self._caller = caller
        self._clock = clock
        self._stopping = asyncio.Event()
        self._calls: set[asyncio.Task[None]] = set()
        self._held_until_s = 0.0
        self._failing = False

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        try:
            while not self._stopped:
                try:
                    await self._take()
                except Unavailable:
                    # The loop asks the same servers, and tells.
                    await self._pause(_RETRY_S)
        finally:
            await self._finish()

    @property
    def _stopped(self) -> bool:
        return self._stopping.is_set() or self._pulling.draining

    async def _pause(self, for_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(for_s):
                await self._stopping.wait()

    async def _take(self) -> None:
        """Begins as many calls as may be under way, once there is a message."""
        if (held_s := self._held_until_s - monotonic()) > 0:
            await self._pause(held_s)
            return
        free = self._subscription.concurrency - len(self._calls)
        if not free:
            await asyncio.wait(self._calls, return_when=asyncio.FIRST_COMPLETED)
            return
        lease_ms = self._subscription.timeout_ms + _LEASE_BEYOND_CALL_MS
        for one in await self._pulling.pull([self._topic], limit=free, wait_ms=_WAIT_MS, lease_ms=lease_ms):
            call = asyncio.create_task(self._deliver(one))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    async def _finish(self) -> None:
        """Calls under way end as they would have; a second cancellation cuts them off, and their leases end."""
        try:
            while self._calls:
                await asyncio.wait(self._calls)
        finally:
            for call in self._calls:
                call.cancel()
            await self._caller.close()

    async def _deliver(self, leased: Leased) -> None:
        try:
            await self._call_out(leased)
        except Exception:
            log.exception("push.broken", topic=self._topic, id=leased.message.record.id)

    async def _call_out(self, leased: Leased) -> None:
        message = leased.message
        if self._stopped:
            await self._give_back(leased, 0)
            return
        try:
            destination = self._destinations.of(self._subscription, message)
        except NoDestination as error:
            await self._settle(leased, self._after(message, Failure(Reason.DESTINATION, str(error))))
            return
        receiver = self._receiver(destination)
        if held_ms := await self._held_ms(receiver):
            await self._give_back(leased, held_ms)
            return
        outcome = self._after(message, await self._post(message, destination))
        if isinstance(outcome, Held):
            await self._hold(receiver, outcome.for_ms)
        await self._settle(leased, outcome)

    def _after(self, message: Message, answer: Answer | Failure) -> Outcome:
        if self._subscription.url is None and isinstance(answer, Answer) and answer.status == 410:
            # The receiver is this message's alone, and there is nothing to end.
            answer = Failure(Reason.STATUS, "answered 410")
        return after(
            answer,
            attempt=message.record.attempts,
            backoff=self._subscription.backoff,
            now_ms=self._clock.now_ms(),
        )

    async def _post(self, message: Message, destination: Destination) -> Answer | Failure:
        began_s = monotonic()
        assert message.envelope is not None
        answer = await self._caller.post(
            destination.url,
            headers_of(message, destination, int(self._clock.now_ms() / 1_000)),
            message.envelope.body or b"",
            timeout_ms=self._subscription.timeout_ms,
        )
        metrics.PUSH_SECONDS.labels(self._topic).observe(monotonic() - began_s)
        return answer

    async def _settle(self, leased: Leased, outcome: Outcome) -> None:
        subscription, record = self._subscription, leased.message.record
        match outcome:
            case Acked():
                await self._insist(lambda: self._settling.ack_receipts(self._topic, [leased.receipt]), leased)
                metrics.PUSHED.add(self._topic)
                if self._failing:
                    log.info("push.recovered", topic=self._topic)
                self._failing = False
                await self._insist(lambda: self._subscriptions.delivered(subscription), leased)
            case Retry(after_ms, reason, says):
                await self._insist(
                    lambda: self._settling.nack_leased(leased, delay_ms=after_ms, reason=f"callback: {says}"), leased
                )
                metrics.PUSH_FAILED.labels(self._topic, reason).inc()
                if not self._failing:
                    log.warning("push.failing", topic=self._topic, id=record.id, reason=reason, says=says)
                self._failing = True
                await self._insist(lambda: self._subscriptions.failed(subscription, record.id, reason, says), leased)
            case Held(for_ms):
                await self._give_back(leased, for_ms)
            case Ended():
                self.stop()
                await self._insist(lambda: self._subscriptions.end(subscription), leased)
                await self._give_back(leased, 0)
                log.warning("push.ended", topic=self._topic, id=record.id)

    async def _give_back(self, leased: Leased, delay_ms: int) -> None:
        """Without an attempt having been made of it."""
        await self._insist(
            lambda: self._settling.nack_leased(leased, delay_ms=delay_ms, reason=None, counted=False), leased
        )

    async def _insist(self, settle: Callable[[], Awaitable[object]], leased: Leased) -> None:
        """Settles as soon as the servers answer, while the lease lasts; then the message comes again by itself. What
        somebody else has settled stays so."""
        while True:
            try:
                await settle()
            except (Conflict, NotFound):
                return
            except Unavailable as error:
                if self._clock.now_ms() >= leased.message.record.lease_until_ms:
                    log.warning("push.unsettled", topic=self._topic, id=leased.message.record.id, reason=str(error))
                    return
                await asyncio.sleep(_RETRY_S)
            else:
                return

    def _receiver(self, destination: Destination) -> str:
        """What is left alone when it asks for it: the subscription's receiver, or the origin that messages name."""
        if self._subscription.url is not None:
            return self._subscription.id
        return sha256(destination.url.origin.encode()).hexdigest()[:16]

    async def _hold(self, receiver: str, for_ms: int) -> None:
        if receiver == self._subscription.id:
            self._held_until_s = monotonic() + for_ms / 1_000
        metrics.PUSH_HELD.add(self._topic)
        log.info("push.held", topic=self._topic, for_ms=for_ms)
        with suppress(Unavailable):
            await self._subscriptions.hold(self._topic, receiver, for_ms)

    async def _held_ms(self, receiver: str) -> int:
        """How long the receiver is to be left alone yet, by what any process was told."""
        try:
            held_ms = await self._subscriptions.held_ms(self._topic, receiver)
        except Unavailable:
            return 0
        if held_ms and receiver == self._subscription.id:
            self._held_until_s = max(self._held_until_s, monotonic() + held_ms / 1_000)
        return held_ms
