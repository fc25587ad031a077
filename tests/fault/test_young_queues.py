"""Tests that messages of a new topic, and a topic's first dead letter, survive the loss of their new queue."""

from __future__ import annotations

import asyncio
import itertools
from time import monotonic

import aio_pika
import httpx2
from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import ChannelNotFoundEntity

from tests.fault.api import Api
from tests.fault.stage import Stage, killed, started
from tests.forked_bridge import PATIENCE
from tests.waiting import pause

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


async def test_first_dead_letter_of_a_topic_survives_the_loss_of_its_queue(
    stage: Stage, http: httpx2.AsyncClient
) -> None:
    bridge = stage.bridge(**PATIENCE)
    async with await aio_pika.connect(stage.rabbit.amqp_url) as connection:
        for number in itertools.count():
            await started(bridge)
            api, topic = Api(http, bridge.url), f"dying-{number}"
            await api.sent(topic, "letter", max_retry=0)
            await reject(connection, f"ready.{topic}")
            while await depth(connection, f"dead.{topic}") is None:
                await pause()
            began_s = monotonic()
            await killed(bridge)
            if monotonic() - began_s < OUTLIVES_A_KILL_AFTER_S:
                break
        async with connection.channel() as channel:
            await channel.queue_delete(f"dead.{topic}")
        await started(bridge)
        while await depth(connection, f"dead.{topic}") != 1:
            await pause()
    # The letter is published before its record names it.
    while (await api.look(topic, "letter"))["state"] != "dead":
        await pause()


async def reject(connection: AbstractConnection, queue: str) -> None:
    """Rejects the next message of the queue."""
    async with connection.channel() as channel, (await channel.get_queue(queue, ensure=False)).iterator() as messages:
        message = await anext(messages)
        await message.reject(requeue=False)


async def depth(connection: AbstractConnection, queue: str) -> int | None:
    """Returns how many messages the queue has ready; None if it does not exist."""
    channel = await connection.channel()
    try:
        return (await channel.declare_queue(queue, passive=True)).declaration_result.message_count
    except ChannelNotFoundEntity:
        return None
    finally:
        await channel.close()
