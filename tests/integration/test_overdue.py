"""Tests that a message is restored from its record when its copy was deleted with its slot."""

from __future__ import annotations

from pathlib import Path

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.integration.own import own_bridge

SLOT_OF_THREE_SECONDS = "delay.000d-00h-00m-02s"  # holds a message with a delay of 3 s, which aims 100-200 ms short

MOVED_TO = ("0s", "1s")  # by the ready queue, and by the wheel


async def test_message_lost_with_its_slot_is_overdue_and_delivered_after_a_move(
    rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path
) -> None:
    async with own_bridge(rabbit, redis_node.url, local_dir) as own:
        # The first send waits until the new wheel survives a kill.
        await own.topic.send("first", id="first", delay=100)
        await own.topic.ack(await own.topic.pull_one())
        for moved_to in MOVED_TO:
            await own.topic.send("kept", id=f"to-{moved_to}", delay="3s")
        await own.amqp.delete_queue(SLOT_OF_THREE_SECONDS)
        assert await own.topic.pull(wait="4s") == []
        assert (await own.topic.info())["overdue"] == len(MOVED_TO)
        for moved_to in MOVED_TO:
            await own.topic.move(f"to-{moved_to}", delay=moved_to)
            pulled = await own.topic.pull_one()
            assert (pulled["id"], pulled["body"], pulled["attempts"]) == (f"to-{moved_to}", "kept", 1)
