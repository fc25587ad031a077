"""Runs the checkpoint over one channel: consumes, holds copies until they are due, processes them, acknowledges."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import NoReturn

import structlog

from bridge.broker.client.consumer import Consumer, Delivery
from bridge.broker.copies.classify import Arrival, Bundle, Due, Returned, Unusable
from bridge.broker.copies.open_bundle import OpenBundle
from bridge.broker.copies.submissions import Submission
from bridge.loops.checkpoint.batches import RETRY_MS, Batches
from bridge.loops.checkpoint.due_queue import DueQueue
from bridge.loops.checkpoint.flight import Flight
from bridge.loops.checkpoint.moments import first_asked_ms
from bridge.loops.checkpoint.opened import OpenedBundles
from bridge.loops.checkpoint.parking import Parking
from bridge.loops.checkpoint.verdicts import HELD_AT_MOST_MS
from bridge.loops.consuming import consuming
from bridge.metrics.loops import BATCH, PARKED_AGAIN, REFUSED
from bridge.model.errors import BrokerUnavailable, Unavailable
from bridge.model.message import Copy
from bridge.service.context import Context
from bridge.service.health.supervisor import Status
from bridge.service.sending.acceptance import Acceptance

log = structlog.get_logger(__name__)

_FAILED_AGAIN_MS = 5_000  # the pause after a fault of the bridge with one message

# How long a stopping process works on copies out of bundles: by then they are due, and were asked about once more.
_ENDED_WITHIN_MS = HELD_AT_MOST_MS + RETRY_MS

_Unpacked = Due | Returned | Submission | Unusable


class Session:
    """Handles the deliveries of one channel of a checkpoint. A delivery tag is valid on its channel only: on the next
    channel, an ack with this tag would lose another delivery. So a session never gets deliveries or batch results of
    another session.
    """

    def __init__(self, context: Context, lane: int, status: Status) -> None:
        self._context = context
        self._store = context.store
        self._keys = context.records.keys
        self._copy_publisher = context.broker.releases
        self._declared = context.broker.declared
        self._queue = context.broker.declared.checkpoint_queue(lane)
        self._classify = context.broker.classifier(lane)
        self._prefetch = context.settings.checkpoint_prefetch
        self._batch = context.settings.checkpoint_batch
        self._batches = Batches(context, lane)
        self._acceptance = Acceptance(context)
        self._held: DueQueue[Arrival] = DueQueue()
        self._parking = Parking(context, lane)
        self._opened = OpenedBundles(context.settings, self._parking)
        self._bundles = self._opened.refs
        self._wake = asyncio.Event()
        self._awaited_ms: float | None = None
        self._flight: Flight
        self._status = status

    def held(self) -> int:
        """Returns how many copies this session holds in memory until they are due."""
        return self._held.copies()

    async def run(self) -> NoReturn:
        """Runs until the channel is lost: consumes the checkpoint's queue, and processes its copies.

        Raises:
            Unavailable: the channel is lost, or a server is away.
        """
        await self._store.learn_clock()
        self._flight = Flight()
        queue, received = self._queue, self._received
        async with consuming(
            self._context, queue, "checkpoint", prefetch=self._prefetch, received=received
        ) as consumer:
            await self._over(consumer)

    async def _over(self, consumer: Consumer) -> NoReturn:
        self._status.working()
        log.info("checkpoint.running")
        closed = asyncio.create_task(consumer.until_closed())
        working = asyncio.create_task(self._work(consumer))
        parking = asyncio.create_task(self._parking.run(partial(self._parked, consumer)))
        forgetting = asyncio.create_task(self._acceptance.forget_acknowledged(consumer.until_acks_are_taken))
        try:
            ends = (closed, working, parking, forgetting, self._flight.failed)
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if self._flight.failed.done():
                self._flight.failed.result()
            for task in (closed, working, parking, forgetting):
                if task.done():
                    task.result()
            raise BrokerUnavailable("the checkpoint's channel was closed")
        except asyncio.CancelledError:
            # The process stops: take no more, finish what is in flight, requeue the rest.
            with suppress(BrokerUnavailable):
                await consumer.stop()
            working.cancel()
            await self._flight.land()
            await self._finish_opened(consumer, parking)
            raise
        finally:
            closed.cancel()
            working.cancel()
            parking.cancel()
            forgetting.cancel()
            self._flight.cancel()
            with suppress(Unavailable):
                await self._acceptance.end()

    async def _work(self, consumer: Consumer) -> None:
        while True:
            await self._flight.room()
            due = await self._next_due()
            for indexes in self._store.by_server([self._key(arrival) for arrival in due]):
                batch = [due[at] for at in indexes]
                BATCH.observe(len(batch))
                settling = any(
                    not isinstance(arrival, Unusable) and self._declared.unsettled(arrival.topic) for arrival in batch
                )
                self._flight.begin(self._process(consumer, batch), settling=settling)

    def _key(self, arrival: _Unpacked) -> str:
        """Returns a key on the Redis server that the checkpoint asks about the arrival."""
        if isinstance(arrival, Unusable):
            return self._keys.topics
        if isinstance(arrival, Submission):
            return self._keys.home(arrival.topic, arrival.message_id)
        return self._keys.home(arrival.topic, arrival.copy.id)

    async def _finish_opened(self, consumer: Consumer, parking: asyncio.Task[None]) -> None:
        """Finishes opened bundles on shutdown. Requeuing one would redeliver copies already released."""
        until_ms = _own_ms() + _ENDED_WITHIN_MS
        self._opened.park_all(_own_ms())
        await self._finish_read(consumer, until_ms)
        await asyncio.wait((parking,), timeout=max(0.0, until_ms - _own_ms()) / 1_000)

    async def _finish_read(self, consumer: Consumer, until_ms: float) -> None:
        """Processes the copies that were read out of bundles. Ends when no copy is left, or when the next copy is due
        after `until_ms`, in ms of `monotonic()`."""
        while self._bundles.copies:
            now_ms = _own_ms()
            due = self._held.take_due(now_ms, self._batch)
            read = [held for held in due if isinstance(held, _Unpacked) and held.tag in self._bundles]
            if read:
                await self._process(consumer, read)
            elif not due:
                next_ms = self._held.next_due_ms()
                if next_ms is None or next_ms > until_ms:
                    return
                await asyncio.sleep(max(0.0, next_ms - now_ms) / 1_000)

    async def _parked(self, consumer: Consumer, tags: list[int]) -> None:
        PARKED_AGAIN.inc(len(tags))
        consumer.ack(self._bundles.parked(tags))

    def _received(self, delivery: Delivery) -> None:
        now_ms = self._store.clock.now_ms()
        arrival = self._classify(delivery, now_ms=int(now_ms))
        self._hold(arrival, first_asked_ms(arrival, now_ms, self._store.clock.ahead_ms) - now_ms)

    def _hold(self, arrival: Arrival, for_ms: float) -> None:
        """Holds an arrival for `for_ms`. This process's monotonic clock measures the time, as Redis' clock may be
        set."""
        due_ms = _own_ms() + for_ms
        self._held.add(due_ms, arrival.topic, arrival, arrival.count)
        if self._awaited_ms is None or due_ms < self._awaited_ms:
            self._wake.set()

    async def _next_due(self) -> list[_Unpacked]:
        """Waits until copies are due, and returns a batch of due copies."""
        while True:
            now_ms = _own_ms()
            due: list[_Unpacked] = []
            while len(due) < self._batch and (found := self._held.take_due(now_ms, self._batch - len(due))):
                for arrival in found:
                    if not isinstance(arrival, (Bundle, OpenBundle)):
                        due.append(arrival)
                        continue
                    clock = self._store.clock
                    for taken, for_ms in self._opened.take(arrival, _own_ms(), clock.now_ms(), clock.ahead_ms):
                        if for_ms or isinstance(taken, (Bundle, OpenBundle)):
                            self._hold(taken, for_ms)
                        else:
                            due.append(taken)
            if due:
                return due
            self._awaited_ms = self._held.next_due_ms()
            self._wake.clear()
            wait_s = None if self._awaited_ms is None else (self._awaited_ms - now_ms) / 1_000
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    async def _process(self, consumer: Consumer, batch: Sequence[_Unpacked]) -> None:
        """Processes a batch. Holds the arrivals that could not be processed, and tries them again later."""
        left: list[_Unpacked]
        unusable = [arrival for arrival in batch if isinstance(arrival, Unusable)]
        items = [arrival for arrival in batch if isinstance(arrival, Due | Returned)]
        submissions = [arrival for arrival in batch if isinstance(arrival, Submission)]
        try:
            if submissions:
                await self._accept(consumer, submissions)
                submissions = []
            for refused in unusable[:]:
                await self._refuse(consumer, refused)
                unusable.remove(refused)
            if items:
                processed = await self._batches.process(items)
                items = []
                for item, again_ms in processed.held:
                    self._hold(item, again_ms - self._store.clock.now_ms())
                for item, reason in processed.refused:
                    self._hold(Unusable(item.tag, item.original, reason), 0)
                consumer.ack(self._bundles.done(processed.done))
            self._status.working()
            self._status.mended(map(_id, batch))
        except Unavailable as error:
            # Nothing was acknowledged, so the next try decides the same.
            self._status.waits(error)
            left = [*submissions, *unusable, *items]
            for arrival in left:
                self._hold(arrival, RETRY_MS)
        except Exception as error:
            left = [*submissions, *unusable, *items]
            if len(left) > 1:
                # One message is at fault. It must not hold up the others.
                for arrival in left:
                    await self._process(consumer, [arrival])
            elif left:
                self._status.failed(error, item=_id(left[0]), topic=left[0].topic)
                self._hold(left[0], _FAILED_AGAIN_MS)
            else:
                raise

    async def _accept(self, consumer: Consumer, submissions: Sequence[Submission]) -> None:
        """Accepts messages whose delay is in a header. Such a message came over the exchange `delay`, or it expired in
        the ingress queue because its client had set `expiration`."""
        accepted = await self._acceptance.accept(submissions)
        for submission in accepted.later:
            self._hold(submission, RETRY_MS)
        for submission, reason in accepted.refused:
            self._hold(Unusable(submission.tag, submission.original, reason), 0)
        consumer.ack(self._bundles.done(accepted.done))
        self._acceptance.acknowledged(accepted)
        for error in accepted.errors:
            self._status.waits(error)

    async def _refuse(self, consumer: Consumer, arrival: Unusable) -> None:
        await self._copy_publisher.refuse(arrival.original, arrival.reason)
        log.warning("checkpoint.refused", reason=arrival.reason)
        REFUSED.inc()
        consumer.ack(self._bundles.done([arrival.tag]))


def _own_ms() -> float:
    return monotonic() * 1_000


def _id(arrival: _Unpacked) -> str:
    if isinstance(arrival, Submission):
        return arrival.message_id
    if not isinstance(arrival, Unusable):
        return arrival.copy.id
    original = arrival.original
    return original.id if isinstance(original, Copy) else original.properties.message_id or ""
