"""Tests what a sender gets to know if RabbitMQ is killed before the confirm of a new queue counts."""

from __future__ import annotations

import asyncio

import aio_pika
import pytest

from bridge.model.errors import BrokerUnavailable
from tests.inside.crash import comes_once, draft, send
from tests.inside.running import running
from tests.inside.stage import Stage
from tests.waiting import pause

NO_DETOURS = 1  # a prefetch of the checkpoint: then a message for a new ready queue does not pass the checkpoint


async def test_message_is_refused_if_rabbitmq_was_lost_before_the_confirm_of_its_new_queue_counted(
    stage: Stage,
) -> None:
    topic, wanted = "lost-while-young", draft("lost-while-young")
    async with (
        stage.proxy(stage.amqp_url) as proxy,
        running(stage, amqp_url=proxy.url, checkpoint_prefetch=NO_DETOURS, verify_every=0) as service,
    ):
        await send(service, draft("warm"))  # answered once the wheel survives a kill of RabbitMQ
        sending = asyncio.create_task(service.sending.send(wanted))
        async with await aio_pika.connect(stage.amqp_url) as connection:
            while not await service.context.broker.declared.finds_topic(topic):
                await pause()
            while await service.context.broker.declared.depth(f"ready.{topic}") == 0:
                await pause()
            proxy.cut()
            async with connection.channel() as channel:
                # A kill of RabbitMQ may do the same, but only at some moments.
                await channel.queue_delete(f"ready.{topic}")
        proxy.mend()
        with pytest.raises(BrokerUnavailable):
            await sending
        await send(service, wanted)
        await comes_once(service, topic, not_before_ms=0)
