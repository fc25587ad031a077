"""Tests schedules whose ticks go to an exchange of another application."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.integration.amqp import Amqp
from tests.integration.schedules import Schedule
from tests.integration.targets import opened
from tests.integration.topic import Topic


@pytest.fixture
def schedule(topic: Topic) -> Schedule:
    return Schedule(topic, f"to-{uuid4().hex[:8]}")


async def test_ticks_go_to_the_target_of_the_schedule(schedule: Schedule, topic: Topic, amqp: Amqp) -> None:
    async with opened(amqp) as shop:
        to = {"exchange": shop.name, "routing_key": "eu.new"}
        made = await schedule.put(every="1s", message={"body": "tick", "to": to})
        assert made["message"]["to"] == (await schedule.look())["message"]["to"] == to
        tick = await amqp.take(shop.queue.name)
        await schedule.call("DELETE")
    assert (tick.message_id or "").startswith(f"{schedule.name}@")
    assert (tick.body, tick.routing_key) == (b'"tick"', "eu.new")
    assert await topic.pull(wait=0) == []


async def test_another_target_is_a_change_and_a_trigger_goes_there(
    schedule: Schedule, topic: Topic, amqp: Amqp
) -> None:
    async with opened(amqp) as shop:
        await schedule.put(cron="0 0 1 1 *", message={"body": "tick"})
        to = {"exchange": shop.name, "routing_key": ""}
        await schedule.put(cron="0 0 1 1 *", message={"body": "tick", "to": to}, expect=200)
        await schedule.call("POST", "/trigger")
        assert (await amqp.take(shop.queue.name)).body == b'"tick"'


@pytest.mark.parametrize("exchange", ["delay", "delay.in", "ready.returned"])
async def test_exchange_of_the_bridge_is_refused(schedule: Schedule, exchange: str) -> None:
    refused = await schedule.put(every="1s", message={"body": 1, "to": {"exchange": exchange}}, expect=422)
    (error,) = refused["errors"]
    assert (error["field"], error["value"], error["limit"]) == (
        "message.to.exchange",
        exchange,
        "an exchange of another application",
    )
    await schedule.look(expect=404)
