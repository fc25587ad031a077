"""Tests that a message for a new topic is accepted at once, and survives the loss of the topic's queue."""

from __future__ import annotations

import asyncio
import itertools
from time import monotonic

import aio_pika
import httpx2
import pytest

from tests.fault.api import Api
from tests.fault.stage import Stage, killed, started
from tests.forked_bridge import PATIENCE

pytestmark = pytest.mark.timeout(90)

OUTLIVES_A_KILL_AFTER_S = 1.2  # as measured: docs/profiles.md


async def test_first_message_of_a_topic_is_accepted_at_once_and_survives_the_loss_of_its_queue(
    stage: Stage, http: httpx2.AsyncClient
) -> None:
    bridge = stage.bridge(**PATIENCE)
    for number in itertools.count():
        await started(bridge)
        api = Api(http, bridge.url)
        await api.sent("warm", f"m-{number}")  # answered once the wheel survives a kill of RabbitMQ
        topics = [f"young-{number}-{at}" for at in range(3)]
        began_s = monotonic()
        answers = await asyncio.gather(*(api.send(topic, "m-1") for topic in topics))
        await killed(bridge)
        assert [answer.status_code for answer in answers] == [201] * len(topics)
        # On a slow machine the queues may be old by now. Then it tries again with new ones.
        if monotonic() - began_s < OUTLIVES_A_KILL_AFTER_S:
            break
    async with await aio_pika.connect(stage.rabbit.amqp_url) as connection:
        channel = await connection.channel()
        for topic in topics:
            # A kill of RabbitMQ may do the same, but only at some moments.
            await channel.queue_delete(f"ready.{topic}")
    await started(bridge)
    for topic in topics:
        assert (await api.pull_one(topic))["id"] == "m-1"
