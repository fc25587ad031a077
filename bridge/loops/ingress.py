"""Accepts the messages that AMQP clients publish with their delay in a header.

    delay.in, delay.in.E --> queue delay.in --> record, copy in the wheel --> acknowledged
                                            '-> delay.refused (it is not valid, or is due in over 999 days)

`delay.in.E` is the ingress of an exchange E: an exchange that takes the messages which go to E when they are due.

A message that the bridge has not acknowledged stays in the queue. So while Redis is away, messages are late and not
lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NoReturn

import structlog

from bridge.broker.client.consumer import Consumer, Delivery
from bridge.broker.copies.classify import Unusable
from bridge.broker.copies.submissions import Submission
from bridge.loops.consuming import again, consuming, next_batch, work
from bridge.metrics.loops import REFUSED
from bridge.model.errors import Unavailable
from bridge.service.context import Context
from bridge.service.health.supervisor import Status, retrying
from bridge.service.sending.acceptance import Acceptance

log = structlog.get_logger(__name__)

_PREFETCH: Final = 1_000
_BATCH: Final = 256
_AT_ONCE: Final = 3  # batches: one waits for Redis while another waits for RabbitMQ
_RETRY_S: Final = 0.5
_FAILED_AGAIN_S: Final = 5.0  # the pause after a fault of the bridge with one message

_Arrival = Submission | Unusable


class Ingress:
    """Accepts messages in batches, and acknowledges each message once it has its record and its copy."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._read = context.broker.submitted
        self._releases = context.broker.releases
        self._clock = context.store.clock
        self._arrived: asyncio.Queue[_Arrival] = asyncio.Queue()
        self._acceptance = Acceptance(context)
        self.status = Status(context.part_name("ingress"), retry_s=_RETRY_S)

    async def run(self) -> NoReturn:
        """Accepts messages for ever. While RabbitMQ or Redis is away, the loop tries again every half second."""
        await retrying(self.status, self._session)

    async def run_once(self, consumer: Consumer) -> None:
        """Waits for a message, and accepts a batch of the messages that have arrived."""
        batch = await next_batch(self._arrived, _BATCH)
        groups: list[Sequence[_Arrival]] = [[one for one in batch if isinstance(one, Unusable)]]
        groups += self._acceptance.by_server([one for one in batch if isinstance(one, Submission)])
        for group in groups:
            await self._process(consumer, group)

    async def _process(self, consumer: Consumer, batch: Sequence[_Arrival]) -> None:
        left = [*batch]
        try:
            for unusable in [one for one in batch if isinstance(one, Unusable)]:
                await self._refuse(consumer, unusable, unusable.reason)
                left.remove(unusable)
            submissions = [one for one in batch if isinstance(one, Submission)]
            if submissions:
                accepted = await self._acceptance.accept(submissions)
                left = [*accepted.later, *(submission for submission, _ in accepted.refused)]
                consumer.ack(accepted.done)
                self._acceptance.acknowledged(accepted)
                for submission, reason in accepted.refused:
                    await self._refuse(consumer, submission, reason)
                    left.remove(submission)
                self._note(accepted.errors)
                self.status.mended(one.message_id for one in submissions if one not in left)
            again(self._arrived, left, _RETRY_S)
        except Unavailable as error:
            self.status.waits(error)
            again(self._arrived, left, _RETRY_S)
        except Exception as error:  # noqa: BLE001 - the status logs it
            if len(left) > 1:
                # One message is at fault. It must not hold up the others.
                for arrival in left:
                    await self._process(consumer, [arrival])
                return
            one = left[0] if left else None
            self.status.failed(error, item=one.message_id if isinstance(one, Submission) else "")
            again(self._arrived, left, _FAILED_AGAIN_S)

    def _note(self, errors: Sequence[Unavailable]) -> None:
        if not errors:
            self.status.working()
        for error in errors:
            self.status.waits(error)

    async def _refuse(self, consumer: Consumer, arrival: _Arrival, reason: str) -> None:
        await self._releases.refuse(arrival.original, reason)
        log.warning("ingress.refused", reason=reason)
        REFUSED.inc()
        consumer.ack([arrival.tag])

    def _received(self, delivery: Delivery) -> None:
        self._arrived.put_nowait(self._read(delivery, now_ms=int(self._clock.now_ms())))

    async def _session(self) -> NoReturn:
        """Runs until the channel is lost: consumes the ingress queue, and accepts its messages.

        Raises:
            Unavailable: the channel is lost, the queue is missing, or Redis did not answer.
        """
        await self._context.store.learn_clock()
        self._arrived, self._acceptance = asyncio.Queue(), Acceptance(self._context)
        queue = self._context.broker.declared.ingress_queue
        async with consuming(self._context, queue, "ingress", prefetch=_PREFETCH, received=self._received) as consumer:
            self.status.working()
            forgetting = self._acceptance.forget_acknowledged(consumer.until_acks_are_taken)
            try:
                await work(consumer, self.run_once, at_once=_AT_ONCE, beside=[forgetting])
            finally:
                await self._acceptance.end()
