"""Tests sends over HTTP to an exchange of another application."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.integration.amqp import Amqp, header
from tests.integration.dead_letters import dead_letters, until_dead
from tests.integration.targets import opened
from tests.integration.topic import Topic


async def test_sent_message_shows_its_target_and_goes_there(topic: Topic, amqp: Amqp) -> None:
    async with opened(amqp) as shop:
        to = {"exchange": shop.name, "routing_key": "eu.new"}
        sent = await topic.send({"order": 1}, id="later", delay=300, to=to, headers={"tenant": "t-7"})
        assert sent["to"] == to
        assert (await topic.look("later"))["to"] == to
        await topic.send({"order": 2}, id="now", to=to)
        messages = {(message := await amqp.take(shop.queue.name)).message_id: message for _ in range(2)}
    assert {name: message.body for name, message in messages.items()} == {
        "later": b'{"order":1}',
        "now": b'{"order":2}',
    }
    assert (header(messages["later"], "tenant"), messages["later"].routing_key) == ("t-7", "eu.new")
    assert (await topic.until_state("later", "acked"))["to"] == to
    assert await topic.pull(wait=0) == []


async def test_each_message_of_a_batch_has_its_own_target(topic: Topic, amqp: Amqp) -> None:
    async with opened(amqp) as shop:
        to = {"exchange": shop.name, "routing_key": "eu.new"}
        results = await topic.send_many(
            {"body": 1, "id": "m-1", "delay": 200, "to": to},
            {"body": 2, "id": "m-2", "delay": 200},
            {"body": 3, "id": "m-3", "to": {"exchange": "delay.in"}},
        )
        assert [result["status"] for result in results] == [201, 201, 422]
        assert [result["message"]["to"] for result in results[:2]] == [to, None]
        assert results[2]["error"]["errors"][0]["field"] == "messages.2.to.exchange"
        assert (await amqp.take(shop.queue.name)).message_id == "m-1"
    assert (await topic.pull_one())["id"] == "m-2"


async def test_moved_message_keeps_its_target(topic: Topic, amqp: Amqp) -> None:
    async with opened(amqp) as shop:
        await topic.send(id="m-1", delay="1h", to={"exchange": shop.name, "routing_key": ""})
        await topic.move("m-1", delay="2h")
        await topic.move("m-1", delay=0)
        assert (await amqp.take(shop.queue.name)).message_id == "m-1"


async def test_vanished_target_makes_a_dead_letter_with_the_reason(topic: Topic, amqp: Amqp) -> None:
    async with opened(amqp) as shop:
        await topic.send(id="m-1", delay=400, to={"exchange": shop.name, "routing_key": "eu"})
        await shop.remove()
        await until_dead(topic, "m-1")
        (letter,) = await dead_letters(topic)
    assert letter["to"] == {"exchange": shop.name, "routing_key": "eu"}
    assert f"no exchange '{shop.name}'" in letter["reason"]
    assert (await topic.call("DELETE", "/dead/m-1"))["state"] == "deleted"


@pytest.mark.parametrize(
    ("to", "field", "limit"),
    [
        ({"exchange": "", "routing_key": "x"}, "to.exchange", 255),
        ({"exchange": "a" * 256}, "to.exchange", 255),
        ({"exchange": "ä" * 128}, "to.exchange", 255),
        ({"exchange": 5}, "to.exchange", 255),
        ({"exchange": "shop", "routing_key": "k" * 256}, "to.routing_key", 255),
        *(
            ({"exchange": own}, "to.exchange", "an exchange of another application")
            for own in ("delay", "delay.in", "delay.in.shop", "delay.ready", "delay.lane1.due", "ready.returned")
        ),
    ],
)
async def test_bad_target_is_refused_with_field_value_and_limit(
    topic: Topic, to: dict[str, Any], field: str, limit: object
) -> None:
    problem = await topic.send(to=to, expect=422)
    (error,) = problem["errors"]
    assert (error["field"], error["limit"]) == (field, limit)
    assert error["value"] == to[field.removeprefix("to.")] or len(str(error["value"])) > 100


@pytest.mark.parametrize("to", ["shop", {}, {"exchange": "shop", "key": "x"}])
async def test_target_of_another_form_is_refused(client: httpx2.AsyncClient, topic: Topic, to: object) -> None:
    await topic.send(to=to, expect=422)
