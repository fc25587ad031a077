"""A broker that is killed while queues are new: RabbitMQ 3.10 and 4.0 leave some standing that answer nobody."""

from __future__ import annotations

import asyncio

import aio_pika
import httpx2

from bridge.local.rabbitmq import RabbitNode
from tests.fault.api import Api
from tests.fault.stage import Stage, killed, started

TOPICS = [f"young-{n}" for n in range(4)]
APART_MS = 60  # of one topic from the next, so that one is as old as it takes


async def unanswering(rabbit: RabbitNode) -> list[str]:
    """The queues out of which nobody can get, which then are without a message."""
    async with httpx2.AsyncClient(base_url=f"{rabbit.management_url}/api/", timeout=60) as management:
        queues = [queue["name"] for queue in (await management.get("queues")).raise_for_status().json()]
    async with await aio_pika.connect(rabbit.amqp_url) as connection:

        async def answers(queue: str) -> bool:
            channel = await connection.channel()
            try:
                message = await (await channel.get_queue(queue, ensure=False)).get(fail=False, timeout=3)
            except TimeoutError:
                return False
            if message is not None:
                await message.nack(requeue=True)
            await channel.close()
            return True

        found = await asyncio.gather(*map(answers, queues))
    return [queue for queue, answered in zip(queues, found, strict=True) if not answered]


async def test_topics_that_were_new_when_the_broker_was_killed_deliver_what_they_accepted(
    stage: Stage, http: httpx2.AsyncClient
) -> None:
    bridge = stage.bridge()
    await started(bridge)
    api = Api(http, bridge.url)
    for topic in TOPICS:
        await api.sent(topic, "one", delay=1_000)
        await api.pull("idle", wait_ms=APART_MS)
    await killed(stage.rabbit)
    await started(stage.rabbit)
    for topic in TOPICS:
        assert (await api.pull_one(topic))["id"] == "one"
    assert await unanswering(stage.rabbit) == []
    await killed(bridge)


async def test_a_wheel_that_was_new_when_the_broker_was_killed_turns_again(
    stage: Stage, http: httpx2.AsyncClient
) -> None:
    bridge = stage.bridge(prefix="young", redis_prefix="young")
    await started(bridge)
    await killed(stage.rabbit)
    await started(stage.rabbit)
    api = Api(http, bridge.url)
    await api.sent("topic", "one", delay=1_000)
    assert (await api.pull_one("topic"))["id"] == "one"
    assert await unanswering(stage.rabbit) == []
    await killed(bridge)
