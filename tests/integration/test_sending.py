"""Tests sending over HTTP: what is accepted, when it is delivered, and what an AMQP consumer gets."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable

import httpx2
import pytest

from bridge.model.values import MAX_DELAY_MS
from tests.integration.amqp import Amqp, header
from tests.integration.topic import Topic, due_ms
from tests.waiting import pause

NowMs = Callable[[], Awaitable[int]]


async def test_short_delay_sent_after_a_long_one_is_delivered_first(topic: Topic, store_now_ms: NowMs) -> None:
    await topic.send(id="thirty-seconds", delay="30s")
    sent = await topic.send(id="one-second", delay="1s")
    pulled = await topic.pull_one()
    assert await store_now_ms() >= due_ms(sent)
    assert (pulled["id"], pulled["due_at"]) == ("one-second", sent["due_at"])
    assert await topic.state("thirty-seconds") == "waiting"


async def test_delay_in_milliseconds_is_never_early(topic: Topic, store_now_ms: NowMs) -> None:
    delays_ms = (1, 99, 101, 250, 1_049)
    sent = await asyncio.gather(*(topic.send(id=str(delay_ms), delay=delay_ms) for delay_ms in delays_ms))
    due = {one["id"]: due_ms(one) for one in sent}
    while due:
        for pulled in await topic.pull(max=10):
            assert await store_now_ms() >= due.pop(pulled["id"])


async def test_message_without_a_delay_is_ready_at_once(topic: Topic) -> None:
    sent = await topic.send()
    assert sent["state"] == "ready"
    assert (await topic.pull_one(wait=0))["id"] == sent["id"]


async def test_instant_in_the_past_means_now(topic: Topic, store_now_ms: NowMs) -> None:
    sent = await topic.send(deliver_at=await store_now_ms() - 3_600_000)
    assert (sent["state"], sent["due_at"]) == ("ready", sent["created_at"])
    assert (await topic.pull_one(wait=0))["id"] == sent["id"]


async def test_future_instant_is_the_due_time_to_the_millisecond(topic: Topic, store_now_ms: NowMs) -> None:
    deliver_at_ms = await store_now_ms() + 437
    sent = await topic.send(deliver_at=deliver_at_ms)
    assert due_ms(sent) == deliver_at_ms
    await topic.pull_one()
    assert await store_now_ms() >= deliver_at_ms


async def test_live_id_sent_again_returns_the_first_message(topic: Topic) -> None:
    first = await topic.send("first", id="m-1", delay="1h")
    assert await topic.send("first", id="m-1", headers={"try": 2}, expect=200) == first
    answer = await topic.client.post(f"/v1/topics/{topic.name}/messages", json={"body": "first", "id": "m-1"})
    assert answer.headers["Idempotent-Replay"] == "true"
    assert (await topic.info())["counts"]["waiting"] == 1


async def test_concurrent_sends_of_one_id_make_one_message(topic: Topic) -> None:
    async def insist() -> int:
        """Sends until the answer is not 503. Returns the status."""
        path, body = f"/v1/topics/{topic.name}/messages", {"body": 1, "id": "m-1"}
        while (answer := await topic.client.post(path, json=body)).status_code == 503:
            assert answer.headers["Retry-After"]
            await pause()
        return answer.status_code

    assert sorted(await asyncio.gather(*(insist() for _ in range(20)))) == [200] * 19 + [201]
    await topic.ack(await topic.pull_one())
    marker = await topic.send(id="marker")
    assert await topic.drain(marker["id"]) == []


async def test_id_sent_twice_in_a_batch_makes_one_message(topic: Topic) -> None:
    twin = {"id": "m-1", "body": 1, "delay": "1h"}
    first, other, second = await topic.send_many(twin, {"body": 2}, twin)
    assert (first["status"], other["status"], second["status"]) == (201, 201, 200)
    assert second["message"] == first["message"]


async def test_id_can_be_sent_again_after_its_message_has_ended(topic: Topic) -> None:
    await topic.send("first", id="m-1")
    await topic.ack(await topic.pull_one())
    assert await topic.state("m-1") == "acked"
    second = await topic.send("second", id="m-1", delay="1s")
    assert (second["state"], second["attempts"], second["ended_at"]) == ("waiting", 0, None)
    pulled = await topic.pull_one()
    assert (pulled["body"], pulled["attempts"]) == ("second", 1)


async def test_invalid_message_in_a_batch_affects_no_other(topic: Topic) -> None:
    results = await topic.send_many(
        {"id": "good-1", "body": 1},
        {"id": "no body"},
        {"id": "too far", "body": 2, "delay": MAX_DELAY_MS + 1},
        {"id": "bad/id", "body": 3},
        {"id": "good-2", "body": 4, "delay": 200},
    )
    assert [one["status"] for one in results] == [201, 422, 422, 422, 201]
    assert results[2]["error"]["errors"][0]["field"] == "messages.2.delay"
    assert {(await topic.pull_one())["id"], (await topic.pull_one())["id"]} == {"good-1", "good-2"}


async def test_delay_of_999_days_is_accepted_and_a_longer_one_refused(topic: Topic, store_now_ms: NowMs) -> None:
    assert (await topic.send(delay="999d"))["state"] == "waiting"
    refused = await topic.send(delay=MAX_DELAY_MS + 1, expect=422)
    assert refused["errors"][0] == {
        **refused["errors"][0],
        "field": "delay",
        "value": MAX_DELAY_MS + 1,
        "limit": MAX_DELAY_MS,
    }
    # The clock of Redis advances before the send, so this instant is within the limit. A minute later is beyond it.
    furthest_ms = await store_now_ms() + MAX_DELAY_MS
    assert due_ms(await topic.send(deliver_at=furthest_ms)) == furthest_ms
    refused = await topic.send(deliver_at=furthest_ms + 60_000, expect=422)
    assert (refused["errors"][0]["field"], refused["errors"][0]["limit"]) == ("deliver_at", MAX_DELAY_MS)


async def test_refused_message_leaves_no_record(topic: Topic) -> None:
    await topic.send(id="m-1", delay=MAX_DELAY_MS + 1, expect=422)
    await topic.look("m-1", expect=404)
    assert (await topic.send("second", id="m-1"))["body"] == "second"


@pytest.mark.parametrize("delay_ms", [0, 300])
async def test_amqp_consumer_gets_exactly_the_bytes_and_headers_sent(topic: Topic, amqp: Amqp, delay_ms: int) -> None:
    body = bytes(range(256))
    sent = await topic.send(
        id="m-1",
        delay=delay_ms,
        body_base64=base64.b64encode(body).decode(),
        content_type="application/octet-stream",
        headers={"tenant": "t-7", "count": 3, "share": 0.5, "urgent": True},
    )
    message = await amqp.take(topic.ready_queue)
    assert message.body == body
    assert (message.message_id, message.content_type) == ("m-1", "application/octet-stream")
    assert message.timestamp is not None
    assert int(message.timestamp.timestamp()) == due_ms({"due_at": sent["created_at"]}) // 1_000
    given = {"tenant": "t-7", "count": 3, "share": 0.5, "urgent": True}
    assert {name: value for name, value in message.headers.items() if name in given} == given
    assert header(message, "x-delay-topic") == topic.name
    assert header(message, "x-delay-due") == due_ms(sent)
    assert header(message, "x-delay-attempt") == 1
    assert not [name for name in message.headers if "death" in name]


async def test_json_numbers_reach_an_amqp_consumer_unchanged(topic: Topic, amqp: Amqp) -> None:
    text = '{"id":12345678901234567890123,"price":1.10,"name":"你好"}'
    path = f"/v1/topics/{topic.name}/messages"
    answer = await topic.client.post(path, content=f'{{"body":{text},"delay":100}}'.encode())
    assert answer.status_code == 201, answer.text
    assert (await amqp.take(topic.ready_queue)).body.decode() == text


async def test_body_of_the_largest_size_is_delivered_and_a_larger_one_refused(topic: Topic, amqp: Amqp) -> None:
    large = "x" * (1024 * 1024)
    sent = await topic.send(large, content_type="text/plain", delay=100)
    assert sent["body"] == large
    assert (await amqp.take(topic.ready_queue)).body == large.encode()
    refused = await topic.send(large + "x", content_type="text/plain", expect=413)
    assert refused["errors"][0]["limit"] == 1024 * 1024


async def test_body_too_large_to_keep_is_delivered_but_not_shown(topic: Topic) -> None:
    large = "x" * (64 * 1024 + 1)
    sent = await topic.send(large, content_type="text/plain", headers={"tenant": "t-7"}, delay=300)
    looked = await topic.look(sent["id"])
    assert "body" not in looked
    assert (looked["content_type"], looked["headers"]) == ("text/plain", {"tenant": "t-7"})
    assert (await topic.pull_one())["body"] == large


async def test_topic_can_have_a_namespace_and_dots(client: httpx2.AsyncClient, topic: Topic, amqp: Amqp) -> None:
    dotted = Topic(client, f"shop.eu/{topic.name}.orders.1.0.0")
    sent = await dotted.send(id="m-1", delay="1h")
    assert sent["topic"] == dotted.name
    namespace, name = dotted.name.split("/")
    found = await client.get(f"/v1/namespaces/{namespace}/topics/{name}/messages/m-1")
    assert found.json() == sent
    await dotted.send(delay=300)
    message = await amqp.take(dotted.ready_queue)
    assert header(message, "x-delay-topic") == dotted.name
    # A topic whose name has the same ending gets no message.
    assert await amqp.count(f"ready.{topic.name}.orders.1.0.0") is None
