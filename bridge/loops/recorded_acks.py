"""Records the acks that AMQP consumers publish.

A consumer that has finished a message publishes an empty one to the exchange `delay.done`, with the topic as routing
key and the same `message_id`.
"""

from __future__ import annotations

import asyncio

import structlog

from bridge.broker.client.consumer import Consumer, Delivery
from bridge.loops.consuming import consuming, work
from bridge.metrics.messages import acked
from bridge.model.errors import StoreUnavailable, Unavailable
from bridge.model.message import valid_id, valid_topic
from bridge.service.context import Context
from bridge.service.supervisor import waiting
from bridge.store.outcomes import read
from bridge.store.verdicts import Verdict

log = structlog.get_logger(__name__)

_PREFETCH = 1_000
_BATCH = 250
_RETRY_S = 0.5


class AckListener:
    """Records acks in batches. It acknowledges the delivery of a recorded ack once Redis has recorded it."""

    name = "acks"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store
        self._records = context.records
        self._arrived: asyncio.Queue[Delivery] = asyncio.Queue()
        self.state = "starting"

    async def run(self) -> None:
        """Runs for ever. While RabbitMQ or Redis is away, it tries again every half second."""
        while True:
            try:
                await self._session()
            except Unavailable as error:
                self.state = waiting(error)
                log.warning("acks.waiting", reason=str(error))
            await asyncio.sleep(_RETRY_S)

    async def run_once(self, consumer: Consumer) -> None:
        """Waits for an ack, and records a batch of those that have arrived."""
        batch = [await self._arrived.get()]
        while len(batch) < _BATCH and not self._arrived.empty():
            batch.append(self._arrived.get_nowait())
        acks = [
            (delivery.routing_key, delivery.properties.message_id or "", delivery.delivery_tag)
            for delivery in batch
            if valid_topic(delivery.routing_key) and valid_id(delivery.properties.message_id or "")
        ]
        if len(acks) < len(batch):
            log.warning("acks.unreadable", count=len(batch) - len(acks))
        await consumer.ack({delivery.delivery_tag for delivery in batch} - {tag for _, _, tag in acks})
        calls = [self._records.ack(topic, message_id, epoch=None, copy_gone=True) for topic, message_id, _ in acks]
        failure: StoreUnavailable | None = None
        for indexes in self._store.apart([call.keys[0] for call in calls]):
            try:
                answers = await self._store.run([calls[at] for at in indexes])
            except StoreUnavailable as error:
                failure = error
                continue
            recorded = [acks[at] for at in indexes]
            for (topic, message_id, _), answer in zip(recorded, answers, strict=True):
                outcome = read(topic, message_id, answer)
                if outcome.verdict is Verdict.ACKED:
                    acked(topic, outcome.found.ended_ms - outcome.found.due_ms)
            await consumer.ack([tag for _, _, tag in recorded])
        if failure is not None:
            raise failure

    async def _session(self) -> None:
        """Works over one channel until it is lost."""
        self._arrived = asyncio.Queue()
        queue = self._context.broker.declared.acks_queue
        async with consuming(self._context, queue, prefetch=_PREFETCH, received=self._arrived.put_nowait) as consumer:
            self.state = "ok"
            await work(consumer, self.run_once)
