"""Records the acks that AMQP consumers publish.

An AMQP consumer that has finished a message publishes an ack to the exchange `delay.done`: an empty message, with the
topic as routing key and the finished message's `message_id`. The header `x-delay-created` of the finished message tells
it apart from other messages of its id. Without this header the ack ends the live message of the id, if a consumer may
have received that message. While the topic's Redis server is away, such an ack waits in this loop; acks of other topics
do not.
"""

from __future__ import annotations

import asyncio
from typing import NoReturn, assert_never

import structlog

from bridge.broker.client.consumer import Consumer, Delivery
from bridge.broker.copies.copies import created_ms
from bridge.loops.consuming import again, consuming, next_batch, work
from bridge.metrics.messages import ACKS_REFUSED, acked
from bridge.model.errors import StoreUnavailable, UnnamedVerdict
from bridge.model.message import valid_id, valid_topic
from bridge.model.values import AckVerdict
from bridge.service.context import Context
from bridge.service.health.supervisor import Status, retrying

log = structlog.get_logger(__name__)

_PREFETCH = 1_000
_BATCH = 250
_RETRY_S = 0.5


class AckListener:
    """Records acks in batches. Acknowledges the delivery of an ack to RabbitMQ once Redis has recorded the ack."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store
        self._records = context.records
        self._arrived: asyncio.Queue[Delivery] = asyncio.Queue()
        self.status = Status(context.part_name("acks"), retry_s=_RETRY_S)

    async def run(self) -> NoReturn:
        """Records acks for ever. While RabbitMQ or Redis is away, the loop tries again every half second."""
        await retrying(self.status, self._session)

    async def run_once(self, consumer: Consumer) -> None:
        """Waits for an ack, and records a batch of the acks that have arrived."""
        batch = await next_batch(self._arrived, _BATCH)
        acks = [
            (delivery.routing_key, delivery.properties.message_id or "", delivery)
            for delivery in batch
            if valid_topic(delivery.routing_key) and valid_id(delivery.properties.message_id or "")
        ]
        if len(acks) < len(batch):
            log.warning("acks.unreadable", count=len(batch) - len(acks))
        consumer.ack({delivery.delivery_tag for delivery in batch} - {delivery.delivery_tag for _, _, delivery in acks})
        calls = [
            self._records.ack(topic, message_id, epoch=None, copy_gone=True, created_ms=created_ms(delivery.properties))
            for topic, message_id, delivery in acks
        ]
        later: list[Delivery] = []
        for indexes in self._store.by_server([call.keys[0] for call in calls]):
            try:
                outcomes = await self._store.run_each([calls[at] for at in indexes])
            except StoreUnavailable as error:
                self.status.waits(error)
                later += [acks[at][2] for at in indexes]
                continue
            done: list[int] = []
            for at, outcome in zip(indexes, outcomes, strict=True):
                topic, _, delivery = acks[at]
                if isinstance(outcome, UnnamedVerdict):
                    continue  # RabbitMQ keeps the ack until the channel ends
                done.append(delivery.delivery_tag)
                match outcome.verdict:
                    case AckVerdict.ACKED:
                        acked(topic, outcome.found.ended_ms - outcome.found.due_ms)
                    case AckVerdict.STALE | AckVerdict.NOT_LEASED | AckVerdict.UNKNOWN:
                        ACKS_REFUSED.labels(outcome.verdict).inc()
                    case _:
                        assert_never(outcome.verdict)
            consumer.ack(done)
        again(self._arrived, later, _RETRY_S)
        if acks and not later:
            self.status.working()

    async def _session(self) -> NoReturn:
        """Runs until the channel is lost: consumes the queue of recorded acks, and records the acks.

        Raises:
            BrokerUnavailable: the channel is lost.
            QueueMissing: somebody deleted the queue.
        """
        self._arrived = asyncio.Queue()
        queue, received = self._context.broker.declared.acks_queue, self._arrived.put_nowait
        async with consuming(self._context, queue, "acks", prefetch=_PREFETCH, received=received) as consumer:
            self.status.working()
            await work(consumer, self.run_once)
