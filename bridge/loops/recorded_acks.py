"""Recorded acks: AMQP consumers say that they have finished a message by publishing an empty one to the exchange
`delay.acks`, with the topic as routing key and the same `message_id`."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import structlog

from bridge import metrics
from bridge.broker.client.consumer import Consumer, Delivery
from bridge.model.errors import BrokerUnavailable, QueueMissing, StoreUnavailable, Unavailable
from bridge.model.message import valid_id, valid_topic
from bridge.service.context import Context
from bridge.service.supervisor import waiting
from bridge.store.records import read
from bridge.store.verdicts import Verdict

log = structlog.get_logger(__name__)

_PREFETCH = 1_000
_BATCH = 250
_RETRY_S = 0.5


class AckListener:
    """Records acks in batches; the broker's copy of an ack goes once Redis has it."""

    name = "acks"

    def __init__(self, context: Context) -> None:
        self._link = context.broker.consuming
        self._declared = context.broker.declared
        self._store = context.store
        self._records = context.records
        self._arrived: asyncio.Queue[Delivery] = asyncio.Queue()
        self.state = "starting"

    async def run(self) -> None:
        """Runs for ever; what goes away is waited for."""
        while True:
            try:
                await self._session()
            except Unavailable as error:
                self.state = waiting(error)
                log.warning("acks.waiting", reason=str(error))
            await asyncio.sleep(_RETRY_S)

    async def run_once(self, feed: Consumer) -> None:
        """Waits for an ack, and records it with those that came along, a batch at the most."""
        batch = [await self._arrived.get()]
        while len(batch) < _BATCH and not self._arrived.empty():
            batch.append(self._arrived.get_nowait())
        acks = [
            (one.routing_key, one.properties.message_id or "", one.delivery_tag)
            for one in batch
            if valid_topic(one.routing_key) and valid_id(one.properties.message_id or "")
        ]
        if len(acks) < len(batch):
            log.warning("acks.unreadable", count=len(batch) - len(acks))
        await feed.ack({one.delivery_tag for one in batch} - {tag for _, _, tag in acks})
        calls = [self._records.ack(topic, message_id, epoch=None, copy_gone=True) for topic, message_id, _ in acks]
        failure: StoreUnavailable | None = None
        for places in self._store.apart([call.keys[0] for call in calls]):
            try:
                answers = await self._store.run([calls[at] for at in places])
            except StoreUnavailable as error:
                failure = error
                continue
            own = [acks[at] for at in places]
            for (topic, message_id, _), answer in zip(own, answers, strict=True):
                if read(topic, message_id, answer).verdict is Verdict.ACKED:
                    metrics.ACKED.add(topic)
            await feed.ack([tag for _, _, tag in own])
        if failure is not None:
            raise failure

    async def _session(self) -> None:
        await self._declared.ensure_wheel()
        self._arrived = asyncio.Queue()
        try:
            feed = await Consumer.open(
                self._link, self._declared.names.acks, prefetch=_PREFETCH, received=self._arrived.put_nowait
            )
        except QueueMissing:
            # Somebody deleted it.
            await self._declared.renew_wheel()
            raise
        self.state = "ok"
        closed = asyncio.create_task(feed.until_closed())
        working = asyncio.create_task(self._work(feed))
        try:
            await asyncio.wait((closed, working), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
            raise BrokerUnavailable("the channel was closed")
        finally:
            closed.cancel()
            working.cancel()
            with suppress(BrokerUnavailable):
                await feed.close()

    async def _work(self, feed: Consumer) -> None:
        while True:
            await self.run_once(feed)
