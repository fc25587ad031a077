"""Tests sends of an id that a message has already: the same again, keep, replace, extend, error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.examples import TIMES
from tests.forked_bridge import PATIENT, ForkedBridge
from tests.integration.topic import Json, Topic, due_ms

NowMs = Callable[[], Awaitable[int]]
LARGE = "x" * (64 * 1024 + 1)  # one byte more than is kept
RACERS = min(1_000, 100 * TIMES)


@pytest_asyncio.fixture(scope="module")
async def second(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a second bridge process on the same servers."""
    settings = {"BRIDGE_AMQP_URL": rabbit.amqp_url, "BRIDGE_REDIS_URL": redis_node.url, **PATIENT}
    process = ForkedBridge(local_dir / "upserts" / "bridge.log", free_ports(1)[0], settings)
    await asyncio.to_thread(process.start)
    try:
        async with httpx2.AsyncClient(base_url=process.url, timeout=90) as client:
            yield client
    finally:
        await asyncio.to_thread(process.stop)


# -- nothing said


@pytest.mark.parametrize(
    ("sent", "again", "field"),
    [
        ({"body": {"n": 1}}, {"body": {"n": 2}}, "body"),
        ({"body": 1, "delay": 0}, {"body": 2}, "body"),
        ({"body": "x", "content_type": "text/plain"}, {"body": "y", "content_type": "text/plain"}, "body"),
        ({"body": 1}, {"body": 1, "content_type": "application/cloudevents+json"}, "content_type"),
        ({"body": LARGE}, {"body": LARGE[1:] + "y"}, "body"),
        ({"body": LARGE}, {"body": 1}, "body"),
    ],
)
async def test_a_send_of_another_body_under_a_live_id_is_refused(
    topic: Topic, sent: Json, again: Json, field: str
) -> None:
    first = await topic.send(id="m-1", **{"delay": "1h", **sent})
    refused = await topic.send(id="m-1", **again, expect=422)
    (error,) = refused["errors"]
    assert (error["field"], first["state"] in error["message"]) == (field, True)
    assert (await topic.look("m-1"))["created_at"] == first["created_at"]
    (result,) = await topic.send_many({"id": "m-1", **again})
    assert (result["status"], result["error"]["errors"][0]["field"]) == (422, f"messages.0.{field}")


@pytest.mark.parametrize("body", [LARGE, {"n": 1}, ""])
async def test_a_send_that_differs_only_in_time_limits_and_headers_is_the_same_send(topic: Topic, body: Any) -> None:
    first = await topic.send(body, id="m-1", delay="1h")
    again = await topic.send(body, id="m-1", delay="2h", ttl=1, max_retry=0, headers={"try": 2}, expect=200)
    assert again == {name: value for name, value in first.items() if name != "body" or body != LARGE}


async def test_keep_answers_with_the_message_whatever_its_body(topic: Topic) -> None:
    first = await topic.send(1, id="m-1", delay="1h")
    assert await topic.send(2, id="m-1", if_exists="keep", expect=200) == first


async def test_error_answers_the_state(topic: Topic) -> None:
    await topic.send(1, id="m-1", if_exists="error")
    assert (await topic.send(1, id="m-1", if_exists="error", expect=409))["state"] == "ready"
    await topic.ack(await topic.pull_one())
    await topic.send(2, id="m-1", if_exists="error")


# -- replace


async def test_replace_delivers_the_new_message_alone(topic: Topic, store_now_ms: NowMs) -> None:
    first = await topic.send(1, id="m-1", delay="300ms", max_retry=7, labels={"a": "1"}, if_exists="replace")
    second = await topic.send(
        2, id="m-1", delay="600ms", ttl="1m", headers={"b": "2"}, labels={"c": "3"}, if_exists="replace", expect=200
    )
    assert due_ms(second) > due_ms(first)
    assert (second["labels"], second["headers"], second["max_retry"] != 7) == ({"c": "3"}, {"b": "2"}, True)
    await topic.send(id="marker", delay="900ms")
    pulled = await topic.pull_one()
    assert await store_now_ms() >= due_ms(second)
    assert (pulled["body"], pulled["headers"], pulled["attempts"]) == (2, {"b": "2"}, 1)
    await topic.ack(pulled)
    assert await topic.drain("marker") == []


async def test_replace_takes_an_instant_and_may_be_earlier(topic: Topic) -> None:
    first = await topic.send(1, id="m-1", delay="1h")
    second = await topic.send(2, id="m-1", deliver_at=due_ms(first) - 60_000, if_exists="replace", expect=200)
    assert due_ms(second) == due_ms(first) - 60_000


async def test_replace_of_a_ready_message_takes_its_place(topic: Topic) -> None:
    await topic.send(1, id="m-1")
    replaced = await topic.send(2, id="m-1", if_exists="replace", expect=200)
    await topic.until_state("m-1", "ready")
    pulled = await topic.pull_one()
    assert (pulled["body"], pulled["created_at"]) == (2, replaced["created_at"])


async def test_replace_of_a_leased_message_ends_the_lease_and_is_delivered(topic: Topic) -> None:
    await topic.send(1, id="m-1")
    leased = await topic.pull_one(lease="1h")
    await topic.send(2, id="m-1", if_exists="replace", expect=200)
    await topic.ack(leased, expect=409)
    pulled = await topic.pull_one()
    assert (pulled["body"], pulled["attempts"]) == (2, 1)


async def test_replace_of_an_ended_message_begins_a_new_one(topic: Topic) -> None:
    await topic.send(1, id="m-1")
    await topic.ack(await topic.pull_one())
    assert (await topic.send(2, id="m-1", delay="1h", if_exists="replace"))["state"] == "waiting"


async def test_items_of_a_batch_replace_each_their_message(topic: Topic) -> None:
    await topic.send(0, id="a", delay="1h")
    items = [{"id": name, "body": at, "delay": "1h", "if_exists": "replace"} for at, name in enumerate("abab", 1)]
    results = await topic.send_many(*items, {"id": "c", "body": 9, "if_exists": "error", "delay": "1h"})
    assert [one["status"] for one in results] == [200, 201, 200, 200, 201]
    assert [(await topic.look(name))["body"] for name in "abc"] == [3, 4, 9]


async def test_racing_replaces_leave_the_last_body_and_deliver_it_once(
    topic: Topic, second: httpx2.AsyncClient
) -> None:
    """Half of them race through another process."""
    places = (topic, topic.through(second))

    async def send(number: int) -> Json:
        path, fields = f"/v1/topics/{topic.name}/messages", {"id": "m-1", "delay": "1h", "if_exists": "replace"}
        while True:
            answer = await places[number % 2].client.post(path, json={"body": number, **fields})
            if answer.status_code != 503:
                assert answer.status_code in (200, 201), answer.text
                answered: Json = answer.json()
                return answered

    answers = await asyncio.gather(*(send(number) for number in range(RACERS)))
    left = await topic.look("m-1")
    assert left["created_at"] == max(answer["created_at"] for answer in answers)
    assert left["body"] in {answer["body"] for answer in answers if answer["created_at"] == left["created_at"]}
    assert (await topic.info())["counts"]["waiting"] == 1
    await topic.move("m-1", delay=0)
    pulled = await topic.pull_one()
    assert (pulled["body"], pulled["attempts"]) == (left["body"], 1)
    await topic.ack(pulled)
    await topic.send(id="marker", delay="200ms")
    assert await topic.drain("marker") == []


# -- extend


async def extend(topic: Topic, body: Any, *, delay: int, max_wait: int, expect: int = 200, **fields: Any) -> Json:
    return await topic.send(body, id="m-1", delay=delay, max_wait=max_wait, if_exists="extend", expect=expect, **fields)


async def test_extend_delivers_the_last_body_once_after_a_pause(topic: Topic, store_now_ms: NowMs) -> None:
    await extend(topic, 0, delay=500, max_wait=60_000, expect=201)
    for body in (1, 2, 2, 3):
        last = await extend(topic, body, delay=500, max_wait=60_000)
    await topic.send(id="marker", delay=1_000)
    pulled = await topic.pull_one()
    assert await store_now_ms() >= due_ms(last)
    assert (pulled["body"], pulled["due_at"], pulled["attempts"]) == (3, last["due_at"], 1)
    await topic.ack(pulled)
    assert await topic.drain("marker") == []


@pytest.mark.parametrize("is_same", [True, False])
async def test_extend_never_passes_its_longest_wait(topic: Topic, second: httpx2.AsyncClient, is_same: bool) -> None:
    """Many sends race through two processes, and ask for due moments on both sides of the limit."""
    places, longest_ms = (topic, topic.through(second)), 5_000
    first = await extend(topic, 0, delay=longest_ms // 2, max_wait=longest_ms, expect=201)
    latest_ms, before_ms = due_ms({"due_at": first["created_at"]}) + longest_ms, due_ms(first)
    for turn in range(4):
        delay, many = longest_ms * (turn + 2) // 5, range(4 * TIMES)
        answers = await asyncio.gather(
            *(extend(places[at % 2], 0 if is_same else [turn, at], delay=delay, max_wait=longest_ms) for at in many)
        )
        left_ms = due_ms(await topic.look("m-1"))
        assert before_ms <= left_ms == max(due_ms(answer) for answer in answers) <= latest_ms
        before_ms = left_ms
    assert before_ms == latest_ms
    body = (await topic.move("m-1", delay=0))["body"]
    pulled = await topic.pull_one()
    assert (pulled["body"], pulled["body"] == 0, pulled["attempts"]) == (body, is_same, 1)


async def test_extend_moves_a_message_only_later(topic: Topic) -> None:
    first = await extend(topic, 1, delay=60_000, max_wait=3_600_000, expect=201)
    second = await extend(topic, 2, delay=0, max_wait=3_600_000, ttl="1m", labels={"a": "1"})
    assert (second["body"], second["due_at"], second["created_at"]) == (2, first["due_at"], first["created_at"])
    assert (due_ms({"due_at": second["expires_at"]}) - due_ms(second), second["labels"]) == (60_000, {"a": "1"})
    third = await extend(topic, 2, delay=60_000, max_wait=60_000, headers={"b": 1})
    assert (third["due_at"], third["headers"], third["labels"]) == (first["due_at"], {"b": 1}, {"a": "1"})


async def test_extend_of_the_same_content_publishes_no_copy(topic: Topic, second: httpx2.AsyncClient) -> None:
    await topic.send(LARGE, id="m-1", delay="1h", if_exists="extend", max_wait="1d")
    await topic.through(second).send(LARGE, id="m-1", delay="2h", if_exists="extend", max_wait="1d", expect=200)
    items = (await topic.call("GET", "/messages/m-1/timeline"))["items"]
    assert [(item["what"], item["slot"] is None) for item in items] == [("sent", False), ("moved", True)]


async def test_extend_of_a_ready_message_leaves_it_to_be_delivered_at_once(topic: Topic) -> None:
    await extend(topic, 1, delay=0, max_wait=10_000, expect=201)
    path, again = f"/v1/topics/{topic.name}/messages", {"if_exists": "extend", "max_wait": 10_000}
    answer = await topic.client.post(path, json={"id": "m-1", "body": 2, "delay": 5_000, **again})
    assert (answer.status_code, answer.headers["Idempotent-Replay"]) == (200, "true")
    assert (await topic.pull_one(wait=0))["body"] == 1


async def test_extend_of_a_leased_message_begins_a_new_one_in_its_place(topic: Topic) -> None:
    await extend(topic, 1, delay=0, max_wait=1, expect=201)
    leased = await topic.pull_one(lease="1h")
    began = await extend(topic, 2, delay=100, max_wait=100)
    assert (began["state"], began["created_at"] > leased["created_at"]) == ("waiting", True)
    await topic.ack(leased, expect=409)
    assert (await topic.pull_one())["body"] == 2


async def test_extend_after_the_end_begins_a_new_wait(topic: Topic) -> None:
    await extend(topic, 1, delay=0, max_wait=1, expect=201)
    await topic.ack(await topic.pull_one())
    assert (await extend(topic, 1, delay=60_000, max_wait=60_000, expect=201))["state"] == "waiting"


async def test_an_instant_beyond_the_longest_wait_is_refused(topic: Topic, store_now_ms: NowMs) -> None:
    at_ms = await store_now_ms() + 60_000
    refused = await topic.send(1, id="m-1", deliver_at=at_ms, if_exists="extend", max_wait="30s", expect=422)
    assert refused["errors"][0]["field"] == "max_wait"
    await topic.look("m-1", expect=404)
