"""Tests that a message is restored from its record when its copy was deleted with its slot."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.integration.own import own_bridge

SLOT_OF_THREE_SECONDS = "delay.000d-00h-00m-02s"  # holds a message with a delay of 3 s, which aims 100-200 ms short


@pytest.mark.parametrize("moved_to", ["0s", "1s"])
async def test_message_lost_with_its_slot_is_overdue_and_delivered_after_a_move(
    rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path, moved_to: str
) -> None:
    async with own_bridge(rabbit, redis_node.url, local_dir) as own:
        # The first send waits until the new wheel survives a kill.
        await own.topic.send("first", id="first", delay=100)
        await own.topic.ack(await own.topic.pull_one())
        await own.topic.send("kept", id="m-1", delay="3s")
        await own.amqp.delete_queue(SLOT_OF_THREE_SECONDS)
        assert await own.topic.pull(wait="4s") == []
        assert (await own.topic.info())["overdue"] == 1
        await own.topic.move("m-1", delay=moved_to)
        pulled = await own.topic.pull_one()
        assert (pulled["id"], pulled["body"], pulled["attempts"]) == ("m-1", "kept", 1)
