"""Delivers one leased message: finds its receiver, calls it, and settles the message by the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from hashlib import sha256
from time import monotonic
from typing import TYPE_CHECKING

import structlog

from bridge.loops.callbacks.client import Client
from bridge.loops.callbacks.decisions import (
    Acked,
    Ended,
    Failure,
    Held,
    Outcome,
    Reason,
    Response,
    Retry,
    decide,
)
from bridge.loops.callbacks.destinations import Destinations, NoDestination
from bridge.loops.callbacks.request import Destination, headers_of
from bridge.metrics.callbacks import HELD, PUSHED, SECONDS, failed
from bridge.model.errors import Conflict, NotFound, Unavailable
from bridge.model.message import Message
from bridge.model.values import Leased
from bridge.service.settling import Settling
from bridge.service.topics.subscriptions import Subscription, Subscriptions
from bridge.store.clock import StoreClock

if TYPE_CHECKING:
    from bridge.tracing.deliveries import Deliveries, DeliverySpan

log = structlog.get_logger(__name__)

_RETRY_S = 0.5


class Delivery:
    """Delivers the messages of one subscription.

    `held_until_s`: until when the bridge makes no calls, because the subscription's receiver is busy; a moment of
    `monotonic()`.
    """

    def __init__(
        self,
        subscription: Subscription,
        *,
        settling: Settling,
        subscriptions: Subscriptions,
        destinations: Destinations,
        client: Client,
        clock: StoreClock,
        stopping: asyncio.Event,
        queue: str,
        tracing: Deliveries | None,
    ) -> None:
        """`stopping`: shared with the worker. The delivery sets it to stop the worker when the subscription is no
        longer current. `queue`: the topic's ready queue."""
        self._subscription = subscription
        self._topic = subscription.topic
        self._queue = queue
        self._tracing = tracing
        self._settling = settling
        self._subscriptions = subscriptions
        self._destinations = destinations
        self._client = client
        self._clock = clock
        self._stopping = stopping
        self.held_until_s = 0.0
        self._failing = False

    async def deliver(self, leased: Leased) -> None:
        """Calls the receiver, and settles the message by the answer. A message that names no valid receiver counts as a
        failed attempt.

        In three cases the bridge makes no call. It makes the message due again, and counts no attempt:

        * The subscription was removed, replaced or ended after the worker read it. This also stops the worker.
        * Redis is away, so the bridge can't check the subscription.
        * The receiver has said that it is busy. The message is due again when the receiver may be called again.
        """
        message = leased.message
        if not await self._is_current():
            await self.requeue(leased, 0)
            return
        try:
            destination = self._destinations.of(self._subscription, message)
        except NoDestination as error:
            await self._settle(leased, self._decide(message, Failure(Reason.DESTINATION, str(error))))
            return
        receiver = self._receiver(destination)
        if held_ms := await self._held_ms(receiver):
            await self.requeue(leased, held_ms)
            return
        outcome = self._decide(message, await self._post(leased, destination))
        if isinstance(outcome, Held):
            await self._hold(receiver, outcome.for_ms)
        await self._settle(leased, outcome)

    async def requeue(self, leased: Leased, delay_ms: int) -> None:
        """Makes a message due again after `delay_ms`, without counting an attempt."""
        await self._until_settled(
            lambda: self._settling.nack_leased(leased, delay_ms=delay_ms, reason=None, counted=False), leased
        )

    async def close(self) -> None:
        await self._client.close()

    def _decide(self, message: Message, result: Response | Failure) -> Outcome:
        if self._subscription.url is None and isinstance(result, Response) and result.status == 410:
            # The receiver belongs to this message only, so a 410 can't end the subscription.
            result = Failure(Reason.STATUS, "answered 410")
        return decide(
            result,
            attempt=message.record.attempts,
            backoff=self._subscription.backoff,
            now_ms=self._clock.now_ms(),
        )

    async def _post(self, leased: Leased, destination: Destination) -> Response | Failure:
        message, began_s = leased.message, monotonic()
        assert message.envelope is not None
        tracing = self._tracing
        span = None if tracing is None else tracing.called(message, self._queue, within=leased.traced_as)
        result = await self._client.post(
            destination.url,
            headers_of(message, destination, int(self._clock.now_ms() / 1_000)),
            message.envelope.body or b"",
            timeout_ms=self._subscription.timeout_ms,
        )
        SECONDS.observe(monotonic() - began_s)
        if span is not None:
            _end(span, result)
        return result

    async def _settle(self, leased: Leased, outcome: Outcome) -> None:
        subscription, record = self._subscription, leased.message.record
        match outcome:
            case Acked():
                await self._until_settled(lambda: self._settling.ack_receipts(self._topic, [leased.receipt]), leased)
                PUSHED.add(self._topic)
                if self._failing:
                    log.info("push.recovered", topic=self._topic)
                self._failing = False
                await self._until_settled(lambda: self._subscriptions.delivered(subscription), leased)
            case Retry(after_ms, reason, detail):
                await self._until_settled(
                    lambda: self._settling.nack_leased(leased, delay_ms=after_ms, reason=f"callback: {detail}"), leased
                )
                failed(self._topic, reason)
                if not self._failing:
                    log.warning("push.failing", topic=self._topic, id=record.id, reason=reason, says=detail)
                self._failing = True
                await self._until_settled(
                    lambda: self._subscriptions.failed(subscription, record.id, reason, detail), leased
                )
            case Held(for_ms):
                await self.requeue(leased, for_ms)
            case Ended():
                self._stopping.set()
                await self._until_settled(lambda: self._subscriptions.end(subscription), leased)
                await self.requeue(leased, 0)
                log.warning("push.ended", topic=self._topic, id=record.id)

    async def _until_settled(self, settle: Callable[[], Awaitable[object]], leased: Leased) -> None:
        """Retries `settle` while the servers are away and the lease lasts. After the lease, the message is redelivered.

        If another consumer has settled the message, that result is final.
        """
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
        """Returns the name under which a receiver's pause is stored: the subscription's id, or a digest of the origin
        that the message names."""
        if self._subscription.url is not None:
            return self._subscription.id
        return sha256(destination.url.origin.encode()).hexdigest()[:16]

    async def _hold(self, receiver: str, for_ms: int) -> None:
        """Stores the receiver's pause, which all processes obey: no calls for the next `for_ms`."""
        if receiver == self._subscription.id:
            self.held_until_s = monotonic() + for_ms / 1_000
        HELD.add(self._topic)
        log.info("push.held", topic=self._topic, for_ms=for_ms)
        with suppress(Unavailable):
            await self._subscriptions.hold(self._topic, receiver, for_ms)

    async def _is_current(self) -> bool:
        """Returns whether the subscription is still current. False also while Redis is away. Stops the worker only if
        Redis says that the subscription is not current."""
        try:
            is_current = await self._subscriptions.is_current(self._subscription)
        except Unavailable:
            return False
        if not is_current:
            self._stopping.set()
        return is_current

    async def _held_ms(self, receiver: str) -> int:
        """Returns for how many ms the receiver must not be called; 0 if it may be called now, or if Redis is away."""
        try:
            held_ms = await self._subscriptions.held_ms(self._topic, receiver)
        except Unavailable:
            return 0
        if held_ms and receiver == self._subscription.id:
            self.held_until_s = max(self.held_until_s, monotonic() + held_ms / 1_000)
        return held_ms


def _end(span: DeliverySpan, result: Response | Failure) -> None:
    if isinstance(result, Failure):
        span.fail(result.reason, result.detail)
    else:
        span.note("http.response.status_code", result.status)
        if not 200 <= result.status < 300:
            span.fail(str(result.status), f"answered {result.status}")
    span.end()
