"""Tests deleting and moving messages that have not been delivered.

A marker shows that a message does not arrive: another message of the topic, due after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.integration.amqp import Amqp
from tests.integration.topic import Topic, due_ms

NowMs = Callable[[], Awaitable[int]]
LARGE = "x" * (64 * 1024 + 1)  # one byte more than is kept


async def test_message_deleted_before_due_reaches_no_http_consumer(topic: Topic) -> None:
    await topic.send(id="doomed", delay=400)
    await topic.send(id="marker", delay=700)
    deleted = await topic.delete("doomed")
    assert (deleted["state"], deleted["body"]) == ("deleted", "abc")
    assert await topic.drain("marker") == []
    assert await topic.state("doomed") == "deleted"


async def test_message_deleted_before_due_reaches_no_amqp_consumer(topic: Topic, amqp: Amqp) -> None:
    await topic.send(id="doomed", delay="1.5s")
    await topic.delete("doomed")
    await topic.send(id="marker", delay="1.6s")
    async with amqp.consume(topic.ready_queue) as arrivals:
        message = await arrivals.get()
        assert message.message_id == "marker"
        await message.ack()


async def test_message_deleted_after_release_reaches_no_http_consumer(topic: Topic) -> None:
    await topic.send(id="doomed")
    await topic.delete("doomed")
    await topic.send(id="marker")
    assert await topic.drain("marker") == []


async def test_delete_of_a_leased_message_makes_its_ack_stale(topic: Topic) -> None:
    await topic.send(id="doomed")
    leased = await topic.pull_one(lease="1s")
    await topic.delete("doomed")
    assert (await topic.ack(leased, expect=409))["state"] == "deleted"
    await topic.send(id="marker", delay="1.3s")
    assert await topic.drain("marker") == []


async def test_delete_is_idempotent_and_refused_after_an_ack(topic: Topic) -> None:
    await topic.delete("unknown", expect=404)
    await topic.send(id="m-1", delay="1h")
    assert await topic.delete("m-1") == await topic.delete("m-1")
    await topic.send(id="m-2")
    await topic.ack(await topic.pull_one())
    assert (await topic.delete("m-2", expect=409))["state"] == "acked"


async def test_delete_with_release_leaves_only_the_tombstone(topic: Topic) -> None:
    await topic.send(id="m-1", delay="1h", headers={"tenant": "t-7"})
    await topic.delete("m-1", query="?release=true")
    tombstone = await topic.look("m-1")
    assert (tombstone["state"], tombstone["headers"], "body" in tombstone) == ("deleted", {}, False)


async def test_deleted_id_can_be_sent_again_and_its_old_copy_is_dropped(topic: Topic) -> None:
    await topic.send("old", id="m-1", delay=300)
    await topic.delete("m-1")
    await topic.send("new", id="m-1", delay=600)
    await topic.send(id="marker", delay=900)
    pulled = await topic.pull_one()
    assert (pulled["id"], pulled["body"]) == ("m-1", "new")
    assert await topic.drain("marker") == []


async def test_message_moved_later_is_delivered_at_its_new_time(topic: Topic, store_now_ms: NowMs) -> None:
    await topic.send(id="m-1", delay="1s")
    moved = await topic.move("m-1", delay="4s")
    await topic.send(id="marker", delay="1.1s")
    assert moved["state"] == "waiting"
    assert await topic.drain("marker") == []
    pulled = await topic.pull_one()
    assert await store_now_ms() >= due_ms(moved) == due_ms(pulled)
    assert pulled["attempts"] == 1


async def test_message_moved_earlier_is_delivered_once_at_its_new_time(topic: Topic, store_now_ms: NowMs) -> None:
    sent = await topic.send(id="m-1", delay="4s")
    moved = await topic.move("m-1", deliver_at=due_ms(sent) - 1_000)
    await topic.send(id="marker", deliver_at=due_ms(sent) + 200)
    assert due_ms(moved) == due_ms(sent) - 1_000
    pulled = await topic.pull_one()
    now_ms = await store_now_ms()
    assert (pulled["id"], pulled["attempts"]) == ("m-1", 1)
    assert now_ms >= due_ms(moved)
    await topic.ack(pulled)
    assert await topic.drain("marker") == []


async def test_message_moved_to_now_is_due_at_once(topic: Topic, amqp: Amqp) -> None:
    await topic.send("body", id="m-1", delay="1h")
    moved = await topic.move("m-1", delay=0)
    assert moved["state"] == "waiting"
    message = await amqp.take(topic.ready_queue)
    assert (message.message_id, message.body) == ("m-1", b'"body"')


async def test_message_can_be_moved_many_times(topic: Topic) -> None:
    await topic.send(id="m-1", delay="4s")
    for delay in ("5s", "4s", "1m", "4s", "1h", 600):
        moved = await topic.move("m-1", delay=delay)
    pulled = await topic.pull_one()
    assert (pulled["due_at"], pulled["attempts"]) == (moved["due_at"], 1)
    await topic.ack(pulled)
    await topic.send(id="marker", delay="5.5s")
    assert await topic.drain("marker") == []


async def test_expiry_moves_with_the_due_time(topic: Topic) -> None:
    sent = await topic.send(id="m-1", delay="1h", ttl="1m")
    moved = await topic.move("m-1", deliver_at=due_ms(sent) + 5_000)
    assert due_ms({"due_at": moved["expires_at"]}) == due_ms(moved) + 60_000


async def test_message_without_a_kept_body_can_only_be_moved_later(topic: Topic) -> None:
    sent = await topic.send(LARGE, id="m-1", content_type="text/plain", delay="3s")
    refused = await topic.move("m-1", delay=0, expect=409)
    assert refused["type"].endswith(":body-not-kept")
    assert refused["state"] == "waiting"
    moved = await topic.move("m-1", deliver_at=due_ms(sent) + 300)
    pulled = await topic.pull_one()
    assert (pulled["body"], pulled["due_at"]) == (LARGE, moved["due_at"])


async def test_message_that_does_not_wait_cannot_be_moved(topic: Topic) -> None:
    await topic.move("unknown", delay=0, expect=404)
    await topic.send(id="m-1")
    assert (await topic.move("m-1", delay="1s", expect=409))["state"] == "ready"
    leased = await topic.pull_one()
    assert (await topic.move("m-1", delay="1s", expect=409))["state"] == "leased"
    await topic.ack(leased)
    assert (await topic.move("m-1", delay="1s", expect=409))["state"] == "acked"


async def test_move_beyond_999_days_is_refused(topic: Topic) -> None:
    sent = await topic.send(id="m-1", delay="998d")
    refused = await topic.move("m-1", deliver_at=due_ms(sent) + 2 * 86_400_000, expect=422)
    assert refused["errors"][0]["field"] == "deliver_at"
    assert await topic.look("m-1") == sent


async def test_concurrent_moves_deliver_one_copy(topic: Topic) -> None:
    await topic.send(id="m-1", delay="1h")

    async def move(delay_ms: int) -> int:
        path = f"/v1/topics/{topic.name}/messages/m-1"
        return (await topic.client.patch(path, json={"delay": delay_ms})).status_code

    statuses = await asyncio.gather(*(move(delay_ms) for delay_ms in range(300, 900, 50)))
    assert set(statuses) <= {200, 409}
    assert 200 in statuses
    await topic.ack(await topic.pull_one())
    await topic.send(id="marker", delay="1s")
    assert await topic.drain("marker") == []
