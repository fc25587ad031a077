"""The checkpoint's loop: takes what arrives, holds it until it is due, has it done in batches, acknowledges."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import structlog

from bridge import metrics
from bridge.broker.client.consumer import Consumer, Delivery
from bridge.broker.copies.classify import read
from bridge.loops.checkpoint.batches import RETRY_MS, Batches, Item
from bridge.loops.checkpoint.bundle_refs import BundleRefs
from bridge.loops.checkpoint.due_queue import DueQueue
from bridge.loops.checkpoint.incoming import (
    Incoming,
    PackedBundle,
    Refused,
    asked_ms,
    incoming,
    parted,
    turn_of,
)
from bridge.loops.checkpoint.verdicts import HELD_AT_MOST_MS
from bridge.model.errors import BrokerUnavailable, QueueMissing, Unavailable
from bridge.model.message import Copy
from bridge.service.context import Context
from bridge.service.supervisor import waiting

log = structlog.get_logger(__name__)

# Batches under way: one asks Redis while another waits for confirms. More of them would be smaller, and cost more.
_AT_ONCE = 3
_FAILED_AGAIN_MS = 5_000  # after a fault of ours with one message

# Copies that are out of their bundles and not done with, beside those of the batches under way: while Redis is away no
# more bundles are parted, since a parted one takes several times its memory, and each copy is asked about again.
_PARTED_AT_MOST = 16_384

# For what is parted when the process is told to stop: it is due by then, and has been asked about once more.
_ENDED_WITHIN_MS = HELD_AT_MOST_MS + RETRY_MS


class Checkpoint:
    name = "checkpoint"

    def __init__(self, context: Context, lane: int) -> None:
        self._context = context
        self._lane = lane
        self._session = Session(context, lane)

    @property
    def state(self) -> str:
        return self._session.state

    async def run(self) -> None:
        """Runs for ever; what goes away is waited for."""
        while True:
            self._session = Session(self._context, self._lane, state=self.state)
            try:
                await self._session.run()
            except Unavailable as error:
                self._session.state = f"waiting: {error}"
                log.warning("checkpoint.waiting", reason=str(error))
            await asyncio.sleep(RETRY_MS / 1_000)


class Session:
    """One channel's life, and all that came over it.

    A delivery tag is good on its own channel only: on the next one it is another delivery's, which would be
    acknowledged, and lost. So what a channel delivers, or a batch hands back, after its end reaches no other session.
    """

    def __init__(self, context: Context, lane: int, *, state: str = "starting") -> None:
        self._link = context.broker.consuming
        self._store = context.store
        self._keys = context.records.keys
        self._copy_publisher = context.broker.releases
        self._declared = context.broker.declared
        self._names = context.broker.declared.names.in_lane(lane)
        self._prefetch = context.settings.checkpoint_prefetch
        self._batch = context.settings.checkpoint_batch
        self._read = partial(read, self._names, max_retry=context.settings.max_retry)
        self._batches = Batches(context, lane)
        self._holding: DueQueue[Incoming] = DueQueue()
        self._shares = BundleRefs(most=_AT_ONCE * self._batch + _PARTED_AT_MOST)
        self._wake = asyncio.Event()
        self._awaited_ms: float | None = None
        self._under_way: set[asyncio.Task[None]] = set()
        # Those of them that wait for a new queue to settle, and keep nobody waiting.
        self._settling: set[asyncio.Task[None]] = set()
        self._broken: asyncio.Future[None]  # a fault of ours in one of its batches
        self.state = state

    async def run_once(self, feed: Consumer) -> None:
        """Waits until something is due, and sets its batch going."""
        while len(self._under_way) - len(self._settling) >= _AT_ONCE:
            await asyncio.wait(self._under_way - self._settling, return_when=asyncio.FIRST_COMPLETED)
        due = await self._next_due()
        for places in self._store.apart([self._key(one) for one in due]):
            batch = [due[at] for at in places]
            task = asyncio.create_task(self._process(feed, batch))
            self._under_way.add(task)
            if any(isinstance(one, Item) and self._declared.unsettled(one.copy.topic) for one in batch):
                self._settling.add(task)
            task.add_done_callback(self._ended)

    def _key(self, one: Item | Refused) -> str:
        """A key on the server that is asked about it."""
        return self._keys.home(one.copy.topic, one.copy.id) if isinstance(one, Item) else self._keys.topics

    async def run(self) -> None:
        """Until the channel is gone.

        Raises:
            Unavailable
        """
        await self._declared.ensure_wheel()
        await self._store.learn_clock()
        self._broken = asyncio.get_running_loop().create_future()
        try:
            feed = await Consumer.open(
                self._link, self._names.checkpoint, prefetch=self._prefetch, received=self._received
            )
        except QueueMissing:
            # Somebody deleted it.
            await self._declared.renew_wheel()
            raise
        self.state = "ok"
        log.info("checkpoint.running")
        closed = asyncio.create_task(feed.until_closed())
        working = asyncio.create_task(self._work(feed))
        try:
            await asyncio.wait((closed, working, self._broken), return_when=asyncio.FIRST_COMPLETED)
            if self._broken.done():
                self._broken.result()
            if working.done():
                working.result()
            raise BrokerUnavailable("the checkpoint's channel was closed")
        except asyncio.CancelledError:
            # Told to stop: take no more, end what is under way, hand back the rest.
            with suppress(BrokerUnavailable):
                await feed.stop()
            working.cancel()
            if self._under_way:
                await asyncio.wait(self._under_way)
            await self._end_parted(feed)
            raise
        finally:
            closed.cancel()
            working.cancel()
            for task in self._under_way:
                task.cancel()
            with suppress(BrokerUnavailable):
                await feed.close()

    async def _end_parted(self, feed: Consumer) -> None:
        """Ends what is parted: handed back, it would come again whole, with what is released already."""
        now_ms = self._store.clock.now_ms()
        until_ms = now_ms + _ENDED_WITHIN_MS
        while self._shares.copies:
            due = self._holding.take_due(now_ms, self._batch)
            parted = [one for one in due if not isinstance(one, PackedBundle) and one.tag in self._shares]
            if parted:
                await self._process(feed, parted)
            elif not due:
                next_ms = self._holding.next_due_ms()
                if next_ms is None or next_ms > until_ms:
                    return
                await asyncio.sleep(max(0.0, next_ms - now_ms) / 1_000)
            now_ms = self._store.clock.now_ms()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._settling.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._broken.done():
            self._broken.set_exception(error)

    async def _work(self, feed: Consumer) -> None:
        while True:
            await self.run_once(feed)

    def _received(self, message: Delivery) -> None:
        now_ms = self._store.clock.now_ms()
        one = incoming(self._read, message, now_ms)
        self._hold(one, asked_ms(one, now_ms))

    def _hold(self, item: Incoming, due_ms: float) -> None:
        topic, copies = turn_of(item)
        self._holding.add(due_ms, topic, item, copies)
        if self._awaited_ms is None or due_ms < self._awaited_ms:
            self._wake.set()

    async def _next_due(self) -> list[Item | Refused]:
        while True:
            now_ms = self._store.clock.now_ms()
            due: list[Item | Refused] = []
            while len(due) < self._batch and (taken := self._holding.take_due(now_ms, self._batch - len(due))):
                for one in taken:
                    if isinstance(one, PackedBundle):
                        due += self._parted(one, now_ms)
                    else:
                        due.append(one)
            if due:
                return due
            self._awaited_ms = self._holding.next_due_ms()
            self._wake.clear()
            wait_s = None if self._awaited_ms is None else (self._awaited_ms - now_ms) / 1_000
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    def _parted(self, one: PackedBundle, now_ms: float) -> list[Item | Refused]:
        """What is due of a bundle; the rest is held, each copy by itself."""
        if not self._shares.has_room(one.bundle.count):
            self._hold(one, now_ms + RETRY_MS)
            return []
        found = parted(one, now_ms)
        if isinstance(found, Refused):
            return [found]
        self._shares.parted(one.tag, len(found))
        due: list[Item | Refused] = []
        for item in found:
            if (moment_ms := asked_ms(item, now_ms)) > now_ms:
                self._hold(item, moment_ms)
            else:
                due.append(item)
        return due

    async def _process(self, feed: Consumer, batch: Sequence[Item | Refused]) -> None:
        left: list[Item | Refused]
        refused = [one for one in batch if isinstance(one, Refused)]
        items = [one for one in batch if isinstance(one, Item)]
        try:
            for strange in refused[:]:
                await self._refuse(feed, strange)
                refused.remove(strange)
            if items:
                processed = await self._batches.process(items)
                items = []
                for item, again_ms in processed.held:
                    self._hold(item, again_ms)
                for item, reason in processed.refused:
                    self._hold(Refused(item.tag, item.message, reason), self._store.clock.now_ms())
                await feed.ack(self._shares.done(processed.done))
            self.state = "ok"
        except Unavailable as error:
            # Nothing of it was acknowledged: the same is decided again.
            self.state = waiting(error)
            left = [*refused, *items]
            for one in left:
                self._hold(one, self._store.clock.now_ms() + RETRY_MS)
        except Exception:
            left = [*refused, *items]
            if len(left) > 1:
                # One of them is at fault, and shall hold up no other.
                for one in left:
                    await self._process(feed, [one])
            elif left:
                topic, _ = turn_of(left[0])
                log.exception("checkpoint.failed", topic=topic, id=_id(left[0]))
                self._hold(left[0], self._store.clock.now_ms() + _FAILED_AGAIN_MS)
            else:
                raise

    async def _refuse(self, feed: Consumer, one: Refused) -> None:
        await self._copy_publisher.refuse(one.message, one.reason)
        log.warning("checkpoint.refused", reason=one.reason)
        metrics.REFUSED.inc()
        await feed.ack(self._shares.done([one.tag]))


def _id(one: Item | Refused) -> str:
    if isinstance(one, Item):
        return one.copy.id
    return one.message.id if isinstance(one.message, Copy) else one.message.properties.message_id or ""
